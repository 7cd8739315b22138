// The shell: who may come in, where we are, and the way to every page.

import { html, nothing } from "lit";
import "./chat.js";
import { Element } from "./element.js";
import { begin } from "./fresh.js";
import { gateway, type Json } from "./gateway.js";
import { address, base, elsewhere, go, here, takeCode, type Place } from "./place.js";
import { keys, palette, type Way } from "./palette.js";
import "./pages.js";
import { ago, oneLine } from "./text.js";

const PAGES: [page: string, label: string, method: string][] = [
  ["chat", "Chat", "chat.send"],
  ["sessions", "Conversations", "sessions.list"],
  ["prompt", "Prompt", "prompt.report"],
  ["files", "Files", "agents.files.list"],
  ["memory", "Memory", "memory.search"],
  ["skills", "Skills", "skills.status"],
  ["schedule", "Schedule", "cron.list"],
  ["channels", "Channels", "channels.available"],
  ["usage", "Usage", "sessions.usage"],
  ["config", "Settings", "config.get"],
  ["models", "Models", "models.setup"],
  ["logs", "Logs", "logs.tail"],
  ["system", "System", "health"],
  ["security", "Security", "security.audit"],
];

const KEYS: [string, string][] = [
  ["Ctrl+K", "go anywhere: pages, conversations"],
  ["Alt+1 … Alt+9 Alt+0", "the pages from the top"],
  ["Alt+N", "a new conversation"],
  ["Enter Shift+Enter", "send, a new line"],
  ["Escape", "stop the assistant, leave a search or an edit"],
  ["/ ↑ ↓ Tab", "choose and complete a command"],
  ["Ctrl+/", "search this conversation"],
  ["Ctrl+S", "save a file or a note"],
  ["?", "this list"],
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
      const before = this.place.page;
      this.place = here();
      this.menu = false;
      // Who cannot see that the page is another one is brought to its beginning; the chat has a place to write.
      if (before !== this.place.page && this.place.page !== "chat") void this.updateComplete.then(() => this.querySelector<HTMLElement>("main")?.focus());
    };
    this.listenTo(window, "popstate", move);
    this.listenTo(window, "place", move);
    this.listenTo(document, "click", (event: MouseEvent) => follow(event));
    // A file that misses its place must not take the browser away from the page.
    for (const name of ["dragover", "drop"]) this.listenTo(window, name, (event: DragEvent) => carries(event) && event.preventDefault());
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
    if (gateway.state === "refused") return;
    const writes = (event.target as HTMLElement | null)?.closest?.("input, textarea, select");
    const number = /^Digit(\d)$/.exec(event.code)?.[1];
    if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey) palette(this.ways());
    else if (event.key === "?" && !writes && !event.ctrlKey && !event.altKey) keys(KEYS);
    else if (!event.altKey || event.ctrlKey || event.metaKey) return;
    else if (number && this.pages[(Number(number) + 9) % 10]) this.visit(this.pages[(Number(number) + 9) % 10]![0]);
    else if (event.code === "KeyN") void begin();
    else return;
    event.preventDefault();
  }

  private get pages(): typeof PAGES {
    return PAGES.filter(([, , method]) => !gateway.hello || gateway.offers(method));
  }

  private visit(page: string): void {
    go(page, page === "chat" || page === "prompt" ? this.key : "");
  }

  private ways(): Way[] {
    return [
      ...this.pages.map(([page, label]) => ({ name: label, hint: "page", go: () => this.visit(page) })),
      { name: "New conversation", go: () => void begin() },
      { name: "Light or dark", go: turn },
      { name: "Keys", go: () => keys(KEYS) },
      ...this.sessions.map((row) => ({ name: String(row.displayName), hint: "conversation", go: () => go("chat", row.key) })),
    ];
  }

  /** The conversation that is looked at, also from pages about something else. */
  private get key(): string {
    if (this.place.page === "chat" || this.place.page === "prompt") sessionStorage.setItem("openclaw.key", this.place.key);
    return sessionStorage.getItem("openclaw.key") ?? "main";
  }

  render() {
    if (gateway.state === "refused") return html`<oc-gate .problem=${this.problem}></oc-gate>`;
    return html`<a class="skip" href="#main">Skip to content</a>
      <button type="button" class="menu quiet" aria-expanded=${this.menu} aria-controls="side" @click=${() => (this.menu = !this.menu)}>☰<span class="away">Menu</span></button>
      ${this.menu ? html`<div class="shade" @click=${() => (this.menu = false)}></div>` : nothing}
      <nav id="side" class=${this.menu ? "open" : ""} aria-label="Pages">
        <a class="brand" href=${address("chat", "main")}>OpenClaw</a>
        <ul>
          ${this.pages.map(([page, label]) => this.link(page, label))}
        </ul>
        <div class="recent">
          <h2>Recent <button type="button" class="quiet" title="New conversation (Alt+N)" @click=${() => void begin()}>New</button></h2>
          <ul>
            ${this.sessions.map((each) => this.session(each))}
          </ul>
        </div>
        <div class="foot">
          <button type="button" class="quiet" title="Go anywhere (Ctrl+K)" @click=${() => palette(this.ways())}>Go to…</button>
          <button type="button" class="quiet" @click=${turn}>Light or dark</button>
          <button type="button" class="quiet" title="Keys (?)" aria-label="Keys" @click=${() => keys(KEYS)}>?</button>
        </div>
      </nav>
      <main id="main" tabindex="-1">${this.page()}</main>
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
        <span class=${row.spawnedBy ? "child" : ""}>${row.hasActiveRun ? html`<span class="dot" aria-label="busy"></span>` : nothing}${oneLine(row.displayName, 60)}</span><small>${ago(row.updatedAt)}</small>
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
      case "schedule":
        return html`<oc-cron></oc-cron>`;
      case "models":
        return html`<oc-models></oc-models>`;
      case "channels":
        return html`<oc-channels></oc-channels>`;
      case "usage":
        return html`<oc-usage></oc-usage>`;
      case "config":
        return html`<oc-config></oc-config>`;
      case "logs":
        return html`<oc-logs></oc-logs>`;
      case "security":
        return html`<oc-security></oc-security>`;
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
          ? html`${elsewhere
                ? html`<p>This page talks to the gateway at ${elsewhere}.</p>`
                : html`<p>Open this page with a one-time link. On the machine the gateway runs on:</p>
                    <pre>openclaw dashboard</pre>`}
              ${message ? html`<p class="problem" role="alert">${message}</p>` : nothing}
              <form @submit=${enter}>
                <label>${elsewhere ? "Enter its token" : "Or enter the token"} <input type="password" name="token" autocomplete="off" required /></label>
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

/** Whether something is dragged that the browser would open. */
function carries(event: DragEvent): boolean {
  return event.dataTransfer?.types.includes("Files") ?? false;
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
