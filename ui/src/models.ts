// Connect a model: a provider's key, a server of one's own, or a server on this machine. Each is tried at once.

import { html, nothing } from "lit";
import { gateway, type Json } from "./gateway.js";
import { Page } from "./page.js";
import { address, base, here } from "./place.js";
import { oneLine } from "./text.js";

const EVERY = 3000;
/** Longer than the gateway waits for a model. */
const PATIENCE = 90_000;

class Models extends Page {
  static properties = { setup: { state: true }, chosen: { state: true }, busy: { state: true }, answered: { state: true } };
  declare setup: Json;
  /** The provider whose key is asked for; "server" for an address. */
  declare chosen: string;
  /** What is being tried. */
  declare busy: string;
  declare answered: Json;
  private timer = 0;
  /** The address at which a sign-in ended, until it is handed over. */
  private ended = "";

  constructor() {
    super();
    this.chosen = "";
    this.busy = "";
    if (new URLSearchParams(location.search).size && here().key !== "main") {
      this.ended = location.href;
      history.replaceState(null, "", address("models"));
    }
  }

  connectedCallback(): void {
    super.connectedCallback();
    this.hear("models.changed", () => void this.refresh());
    this.hear("config.changed", () => void this.refresh());
    this.timer = window.setInterval(() => {
      if (gateway.state === "ready" && document.visibilityState === "visible" && !this.busy) void this.refresh();
    }, EVERY);
  }

  disconnectedCallback(): void {
    super.disconnectedCallback();
    clearInterval(this.timer);
  }

  protected async load(): Promise<void> {
    this.setup = await gateway.call("models.setup", {});
    if (this.ended) void this.signedIn();
  }

  /** Sends this browser to the provider, which sends it back here. */
  private signIn(provider: string): Promise<void> {
    this.busy = "login";
    return this.attempt(async () => {
      try {
        const begun = await gateway.call("models.login.start", { provider, callbackUrl: `${location.origin}${base}/models` });
        location.assign(begun.url);
      } catch (error) {
        this.busy = "";
        throw error;
      }
    });
  }

  private async signedIn(): Promise<void> {
    const answer = this.ended;
    this.ended = "";
    this.busy = "signed-in";
    await this.attempt(async () => {
      const state = new URL(answer).pathname.split("/").pop();
      this.answered = await gateway.call("models.login.finish", { state, answer }, PATIENCE);
    });
    this.busy = "";
    await this.refresh();
  }

  private async connect(params: Json, what: string): Promise<void> {
    this.busy = what;
    this.answered = undefined;
    await this.attempt(async () => {
      this.answered = await gateway.call("models.connect", params, PATIENCE);
      this.chosen = "";
      await this.load();
    });
    this.busy = "";
  }

  private submit(event: SubmitEvent): void {
    event.preventDefault();
    const given = Object.fromEntries([...new FormData(event.target as HTMLFormElement)].map(([key, value]) => [key, String(value).trim()]).filter(([, value]) => value));
    void this.connect(given, this.chosen);
  }

  private async test(): Promise<void> {
    this.busy = "test";
    this.answered = undefined;
    await this.attempt(async () => {
      const found = await gateway.call("models.test", {}, PATIENCE);
      if (!found.ok) throw new Error(found.error);
      this.answered = found;
    });
    this.busy = "";
  }

  render() {
    const { setup } = this;
    if (!setup) return this.frame("Models", this.problem ? nothing : html`<p class="empty">Loading…</p>`);
    const usual = setup.providers.filter((each: Json) => each.defaultModel);
    const chosen = usual.find((each: Json) => each.id === this.chosen);
    return this.frame(
      "Models",
      html`${this.busy === "signed-in" ? html`<p role="status">You are back; asking the model…</p>` : nothing}
        ${this.answered
          ? html`<p class="good" role="status">${this.answered.model} answers${this.answered.answer ? html`: “${oneLine(this.answered.answer, 200)}”` : nothing}${this.answered.ms ? ` (${(this.answered.ms / 1000).toFixed(1)} s)` : ""}. <a href=${address("chat", "main")}>Talk to it</a></p>`
          : nothing}
        <section class="skill now">
          <header><h3>${setup.configured ? oneLine(setup.model, 80) : "No model yet"}</h3>${setup.configured ? html`<span class="badge good">answers now</span>` : nothing}</header>
          <p class="hint">${setup.configured ? oneLine(setup.why, 200) : "Connect one below. It is tried with one small question, and kept when it answers."}</p>
          ${setup.configured ? html`<div class="buttons"><button type="button" ?disabled=${Boolean(this.busy)} @click=${() => void this.test()}>${this.busy === "test" ? "Asking…" : "Ask it something"}</button></div>` : nothing}
        </section>
        ${setup.local.length ? this.local() : nothing}
        <h2>With a key</h2>
        <div class="choices" role="group" aria-label="Providers">
          ${usual.map((each: Json) => html`<button type="button" aria-pressed=${each.id === this.chosen} @click=${() => this.choose(each.id)}>${each.name}${each.needsKey && each.hasKey ? html` <small>has a key</small>` : nothing}</button>`)}
        </div>
        ${chosen ? this.key(chosen) : nothing}
        <h2>A server of your own</h2>
        <p class="hint">Any OpenAI-compatible one: llama.cpp, vLLM, LiteLLM, a machine in your network.</p>
        ${this.chosen === "server" ? this.server() : html`<div class="buttons"><button type="button" @click=${() => this.choose("server")}>Enter its address</button></div>`}
        ${setup.local.length ? nothing : html`<p class="hint">Ollama, LM Studio, llama.cpp or vLLM on this machine is found by itself, as soon as it is started.</p>`}`,
    );
  }

  private choose(name: string): void {
    this.chosen = name;
    this.problem = "";
    void this.updateComplete.then(() => this.querySelector<HTMLElement>("form input")?.focus());
  }

  private local() {
    return html`<h2>On this machine</h2>
      ${this.setup.local.map((each: Json) => {
        const ref = `${each.provider}/${each.model}`;
        return html`<section class="skill" data-model=${ref}>
          <header><h3>${oneLine(ref, 80)}</h3><span class="hint">${each.address}</span></header>
          ${ref === this.setup.model ? nothing : html`<div class="buttons"><button type="button" class="primary" ?disabled=${Boolean(this.busy)} @click=${() => void this.connect({ model: ref }, ref)}>${this.busy === ref ? "Trying…" : "Use it"}</button></div>`}
        </section>`;
      })}`;
  }

  private key(provider: Json) {
    return html`<form class="job connect" @submit=${(event: SubmitEvent) => this.submit(event)}>
      <h3>${provider.name}</h3>
      <input type="hidden" name="provider" value=${provider.id} />
      ${provider.login
        ? html`<div class="buttons"><button type="button" class="primary" ?disabled=${Boolean(this.busy)} @click=${() => void this.signIn(provider.id)}>Sign in at ${provider.name}</button></div>
            <p class="hint">It makes a key for this assistant, and you can take it back there. Or give a key yourself:</p>`
        : nothing}
      ${provider.keyUrl ? html`<p>Keys are made at <a href=${provider.keyUrl} target="_blank" rel="noreferrer noopener">${provider.keyUrl.replace(/^https:\/\//, "")}</a>.</p>` : nothing}
      <label>Key <input name="apiKey" type="password" autocomplete="off" spellcheck="false" ?required=${provider.needsKey && !provider.hasKey} />${provider.hasKey && provider.needsKey ? html`<small>There is one (${oneLine(provider.source, 80)}). Leave this empty to use it.</small>` : nothing}</label>
      <label>Model <input name="model" autocomplete="off" spellcheck="false" placeholder=${`${provider.id}/${provider.defaultModel}`} pattern=${`${provider.id}/.+`} title=${`${provider.id}/name`} /><small>Empty: its usual one.</small></label>
      ${this.buttons(provider.id)}
    </form>`;
  }

  private server() {
    return html`<form class="job connect" @submit=${(event: SubmitEvent) => this.submit(event)}>
      <label>Address <input name="baseUrl" type="url" required autocomplete="off" spellcheck="false" placeholder="http://192.168.1.20:8000/v1" /></label>
      <label>Model <input name="model" autocomplete="off" spellcheck="false" /><small>Empty: the first that it offers.</small></label>
      <label>Key <input name="apiKey" type="password" autocomplete="off" spellcheck="false" /><small>Only when it wants one.</small></label>
      ${this.buttons("server")}
    </form>`;
  }

  private buttons(name: string) {
    return html`<div class="buttons">
      <button type="button" @click=${() => (this.chosen = "")}>Cancel</button>
      <button class="primary" ?disabled=${Boolean(this.busy)}>${this.busy === name ? "Trying…" : "Try and connect"}</button>
    </div>`;
  }
}
customElements.define("oc-models", Models);
