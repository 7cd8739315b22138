// The shell: who may come in, where we are, and the way to every page.

import { html, nothing } from "lit";
import "./chat.js";
import { Element } from "./element.js";
import { gateway, type Json } from "./gateway.js";
import { address, base, go, here, takeCode, type Place } from "./place.js";
import "./pages.js";
import { ago, oneLine } from "./text.js";

const PAGES: [page: string, label: string, method: string][] = [
  ["chat", "Chat", "chat.send"],
  ["sessions", "Conversations", "sessions.list"],
  ["prompt", "Prompt", "prompt.report"],
  ["files", "Files", "agents.files.list"],
  ["memory", "Memory", "memory.search"],
  ["skills", "Skills", "skills.status"],
  ["config", "Settings", "config.get"],
  ["logs", "Logs", "logs.tail"],
  ["system", "System", "health"],
];

class App extends Element {
  static properties = { place: { state: true }, sessions: { state: true }, menu: { state: true }, problem: { state: true } };
  declare place: Place;
  declare sessions: Json[];
  declare menu: boolean;
  declare problem: string;
  private planned = 0;

  constructor() {
    super();
    this.place = here();
    this.sessions = [];
    this.menu = false;
    this.problem = "";
    theme();
  }

  connectedCallback(): void {
    super.connectedCallback();
    const move = () => {
      this.place = here();
      this.menu = false;
    };
    this.listenTo(window, "popstate", move);
    this.listenTo(window, "place", move);
    this.listenTo(document, "click", (event: MouseEvent) => follow(event));
    this.listenTo(window, "keydown", (event: KeyboardEvent) => this.typed(event));
    this.hear("state", () => this.requestUpdate());
    this.hear("hello", () => void this.list());
    this.hear("sessions.changed", () => this.soon());
    void this.start();
  }

  private async start(): Promise<void> {
    const given = takeCode();
    if (here().page === "chat" && location.pathname.slice(base.length).length < 2) history.replaceState(null, "", address("chat", "main"));
    if (given.startsWith("token:")) gateway.open(given.slice(6));
    else if (given) {
      try {
        gateway.open(await trade(given.slice(5)));
      } catch (error) {
        this.problem = (error as Error).message;
        gateway.open();
      }
    } else gateway.open();
  }

  private soon(): void {
    this.planned ||= window.setTimeout(() => {
      this.planned = 0;
      void this.list();
    }, 500);
  }

  private async list(): Promise<void> {
    try {
      await gateway.call("sessions.subscribe", {});
      this.sessions = (await gateway.call("sessions.list", { limit: 30 })).sessions;
    } catch {
      // The next change asks again.
    }
  }

  private typed(event: KeyboardEvent): void {
    if (!event.altKey || event.ctrlKey || event.metaKey) return;
    const page = PAGES[Number(event.key) - 1];
    if (page) {
      event.preventDefault();
      go(page[0], page[0] === "chat" || page[0] === "prompt" ? this.key : "");
    } else if (event.key === "n") {
      event.preventDefault();
      void this.fresh();
    }
  }

  /** The conversation that is looked at, also from pages about something else. */
  private get key(): string {
    if (this.place.page === "chat" || this.place.page === "prompt") sessionStorage.setItem("openclaw.key", this.place.key);
    return sessionStorage.getItem("openclaw.key") ?? "main";
  }

  private async fresh(): Promise<void> {
    const made = await gateway.call("sessions.create", {});
    go("chat", made.key);
  }

  render() {
    if (gateway.state === "refused") return html`<oc-gate .problem=${this.problem}></oc-gate>`;
    return html`<a class="skip" href="#main">Skip to content</a>
      <button type="button" class="menu quiet" aria-expanded=${this.menu} aria-controls="side" @click=${() => (this.menu = !this.menu)}>☰<span class="away">Menu</span></button>
      ${this.menu ? html`<div class="shade" @click=${() => (this.menu = false)}></div>` : nothing}
      <nav id="side" class=${this.menu ? "open" : ""} aria-label="Pages">
        <a class="brand" href=${address("chat", "main")}>OpenClaw</a>
        <ul>
          ${PAGES.filter(([, , method]) => !gateway.hello || gateway.offers(method)).map(([page, label]) => this.link(page, label))}
        </ul>
        <div class="recent">
          <h2>Recent <button type="button" class="quiet" title="New conversation (Alt+N)" @click=${() => void this.fresh()}>New</button></h2>
          <ul>
            ${this.sessions.map((each) => this.session(each))}
          </ul>
        </div>
        <button type="button" class="quiet" @click=${turn}>Light or dark</button>
      </nav>
      <main id="main">${this.page()}</main>
      ${gateway.state === "ready" ? nothing : html`<p class="connection" role="status">${gateway.state === "away" ? "The gateway does not answer. Trying again…" : "Connecting…"}</p>`}`;
  }

  private link(page: string, label: string) {
    const key = page === "chat" || page === "prompt" ? this.key : "";
    return html`<li><a href=${address(page, key)} aria-current=${this.place.page === page ? "page" : nothing}>${label}</a></li>`;
  }

  private session(row: Json) {
    const current = this.place.page === "chat" && (row.key === this.place.key || (row.isMain && this.place.key === "main"));
    return html`<li>
      <a href=${address("chat", row.key)} aria-current=${current ? "true" : nothing}>
        <span>${row.hasActiveRun ? html`<span class="dot" aria-label="busy"></span>` : nothing}${oneLine(row.displayName, 60)}</span><small>${ago(row.updatedAt)}</small>
      </a>
    </li>`;
  }

  private page() {
    switch (this.place.page) {
      case "chat":
        return html`<oc-chat .key=${this.place.key}></oc-chat>`;
      case "sessions":
        return html`<oc-sessions></oc-sessions>`;
      case "prompt":
        return html`<oc-prompt .key=${this.place.key}></oc-prompt>`;
      case "files":
        return html`<oc-files></oc-files>`;
      case "memory":
        return html`<oc-memory></oc-memory>`;
      case "skills":
        return html`<oc-skills></oc-skills>`;
      case "config":
        return html`<oc-config></oc-config>`;
      case "logs":
        return html`<oc-logs></oc-logs>`;
      case "system":
        return html`<oc-system></oc-system>`;
      default:
        return html`<section class="page"><h1>There is no such page</h1><p><a href=${address("chat", "main")}>To the chat</a></p></section>`;
    }
  }
}
customElements.define("oc-app", App);

/** What stands here when the gateway does not let this browser in. */
class Gate extends Element {
  static properties = { problem: {} };
  declare problem: string;

  render() {
    const { kind, message, requestId } = gateway.trouble ?? { kind: "other", message: "", requestId: undefined };
    return html`<main class="gate">
      <h1>OpenClaw</h1>
      ${this.problem ? html`<p class="problem" role="alert">${this.problem}</p>` : nothing}
      ${kind === "pairing"
        ? html`<p>This browser is new here. Approve it on a device that is already connected, under System, or with</p>
            <pre>openclaw gateway call device.pair.approve --params '{"requestId":"${requestId}"}'</pre>
            <p class="hint" role="status">Waiting for approval…</p>`
        : kind === "credential"
          ? html`<p>Open this page with a one-time link. On the machine the gateway runs on:</p>
              <pre>openclaw dashboard</pre>
              ${message ? html`<p class="problem" role="alert">${message}</p>` : nothing}
              <form @submit=${enter}>
                <label>Or enter the token <input type="password" name="token" autocomplete="off" required /></label>
                <button class="primary">Connect</button>
              </form>`
          : html`<p class="problem" role="alert">${message}</p><button type="button" @click=${() => gateway.open()}>Try again</button>`}
    </main>`;
  }
}
customElements.define("oc-gate", Gate);

function enter(event: SubmitEvent): void {
  event.preventDefault();
  gateway.open(String(new FormData(event.target as HTMLFormElement).get("token")));
}

async function trade(code: string): Promise<string | undefined> {
  const answer = await fetch(`${base}/control-ui-link`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ code }),
    credentials: "omit",
    referrerPolicy: "no-referrer",
  });
  const told = await answer.json();
  if (!answer.ok) throw new Error(told.error?.message ?? "the link could not be used");
  return told.token ?? undefined;
}

/** Links within the page do not load it again. */
function follow(event: MouseEvent): void {
  const link = (event.target as Element | null)?.closest?.("a");
  if (!link || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || link.target) return;
  const url = new URL(link.href, location.href);
  if (url.origin !== location.origin || !url.pathname.startsWith(`${base}/`) || url.hash) return;
  event.preventDefault();
  history.pushState(null, "", url.pathname);
  dispatchEvent(new Event("place"));
}

function theme(): void {
  const chosen = localStorage.getItem("openclaw.theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
}

function turn(): void {
  const root = document.documentElement;
  const dark = (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("openclaw.theme", root.dataset.theme);
}
