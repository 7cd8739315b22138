// The chat page.

import { html, nothing, type TemplateResult } from "lit";
import { repeat } from "lit/directives/repeat.js";
import "./approvals.js";
import "./composer.js";
import { Element } from "./element.js";
import { gateway, type Json } from "./gateway.js";
import { copy } from "./markdown.js";
import { Talk, textOf, type Pending, type Row } from "./talk.js";
import { clock, dollars, oneLine, tokens } from "./text.js";
import "./tool-card.js";

const PAGE = 80;
/** Rows on the page at the same time; the others are remembered, not drawn. */
const WINDOW = 200;
const AWAY = "waits for the connection";

class Chat extends Element {
  static properties = { key: {}, session: { state: true }, problem: { state: true }, find: { state: true } };
  declare key: string;
  declare session: Json;
  declare problem: string;
  declare find: string | undefined;
  private talk = new Talk();
  private stick = true;
  private loading = false;
  private seen = 0;
  private growth = new ResizeObserver(() => this.settle());
  /** Where the drawn rows end; at the newest when there is none. */
  private last: number | undefined;

  connectedCallback(): void {
    super.connectedCallback();
    this.hear("hello", () => void this.load());
    this.hear("gap", () => void this.load());
    this.hear("agent", (payload) => this.mine(payload) && this.change(() => this.talk.agent(payload)));
    this.hear("chat", (payload) => this.mine(payload) && this.told(payload));
    this.hear("session.message", (payload) => this.mine(payload) && this.change(() => this.talk.recorded(payload)));
    this.hear("sessions.changed", (payload) => this.mine(payload) && this.changed(payload));
    this.listenTo(window, "keydown", (event: KeyboardEvent) => this.typed(event));
    if (gateway.state === "ready") void this.load();
  }

  disconnectedCallback(): void {
    super.disconnectedCallback();
    this.growth.disconnect();
  }

  willUpdate(changed: Map<string, unknown>): void {
    if (changed.has("key") && changed.get("key") !== undefined) {
      this.talk = new Talk();
      this.session = undefined;
      this.stick = true;
      this.seen = 0;
      this.last = undefined;
      if (gateway.state === "ready") void this.load();
    }
  }

  private mine(payload: Json): boolean {
    return this.talk.loaded && payload.sessionKey === this.talk.key;
  }

  private change(work: () => void): void {
    work();
    this.requestUpdate();
  }

  private told(payload: Json): void {
    this.change(() => this.talk.chat(payload));
    // What was said until then is on record, and nobody has told us of it.
    if (payload.state === "aborted" || payload.state === "error") void this.load();
  }

  private changed(payload: Json): void {
    if (payload.reason === "reset" || payload.reason === "delete") void this.load();
    else if (payload.session) this.session = payload.session;
    else if (["end", "error", "send"].includes(payload.phase ?? payload.reason)) void this.describe();
  }

  private async load(): Promise<void> {
    const { key, talk } = this;
    try {
      await gateway.call("sessions.subscribe", {});
      await gateway.call("sessions.messages.subscribe", { key });
      const history = await gateway.call("chat.startup", { sessionKey: key, limit: PAGE });
      if (talk !== this.talk) return;
      const { problem } = talk;
      talk.load(history);
      talk.problem = problem;
      this.session = history.sessionInfo;
      this.problem = "";
      this.resend();
    } catch (error) {
      if (talk === this.talk) this.problem = (error as Error).message;
    }
    this.requestUpdate();
  }

  /** What was typed while the gateway was away goes out now; its key makes sure that it counts once. */
  private resend(): void {
    for (const each of this.talk.pending) if (each.problem === AWAY) void this.submit(each);
  }

  private async describe(): Promise<void> {
    const { session } = await gateway.call("sessions.describe", { key: this.talk.key });
    this.session = session;
  }

  private async older(): Promise<void> {
    if (this.loading || !this.talk.more) return;
    this.loading = true;
    const { talk } = this;
    try {
      const page = await gateway.call("chat.history", { sessionKey: talk.key, limit: PAGE, offset: talk.nextOffset });
      const before = talk.rows.length;
      const end = this.last ?? before;
      talk.page(page);
      const added = talk.rows.length - before;
      await this.slide(end + added - (end + added > WINDOW ? PAGE : 0));
    } catch (error) {
      this.problem = (error as Error).message;
    } finally {
      this.loading = false;
    }
  }

  /** Draws other rows and keeps what is being read where it is. */
  private async slide(end: number): Promise<void> {
    const scroller = this.querySelector(".talk")!;
    const edge = scroller.getBoundingClientRect().top;
    const anchor = [...this.querySelectorAll<HTMLElement>("article[data-id]")].find((each) => each.getBoundingClientRect().bottom > edge);
    const at = anchor?.getBoundingClientRect().top ?? 0;
    this.last = end >= this.talk.rows.length ? undefined : Math.max(end, Math.min(WINDOW, this.talk.rows.length));
    this.requestUpdate();
    await this.updateComplete;
    if (anchor?.isConnected) scroller.scrollTop += anchor.getBoundingClientRect().top - at;
  }

  private latest(): void {
    this.last = undefined;
    this.stick = true;
    this.requestUpdate();
  }

  private send(event: CustomEvent): void {
    const { text, images } = event.detail as { text: string; images: string[] };
    const pending: Pending = { runId: crypto.randomUUID(), text, images, at: Date.now() };
    this.talk.pending.push(pending);
    this.talk.problem = "";
    this.stick = true;
    this.requestUpdate();
    void this.submit(pending);
  }

  private async submit(pending: Pending): Promise<void> {
    pending.problem = undefined;
    try {
      await gateway.call("chat.send", {
        sessionKey: this.talk.key || this.key,
        message: pending.text,
        idempotencyKey: pending.runId,
        ...(pending.images.length ? { attachments: pending.images.map((content) => ({ type: "image", mimeType: /^data:([^;]+)/.exec(content)?.[1], content })) } : {}),
      });
    } catch (error) {
      const failed = error as { code?: string; message: string };
      pending.problem = failed.code === "AWAY" || failed.code === "TIMEOUT" ? AWAY : failed.message;
    }
    this.requestUpdate();
  }

  private async stop(): Promise<void> {
    try {
      await gateway.call("chat.abort", { sessionKey: this.talk.key });
    } catch (error) {
      this.problem = (error as Error).message;
    }
  }

  private typed(event: KeyboardEvent): void {
    if (event.key === "Escape" && this.find !== undefined) this.find = undefined;
    else if (event.key === "Escape" && this.talk.live && !document.querySelector("dialog[open]")) void this.stop();
    else if (event.key === "/" && event.ctrlKey) {
      this.find = this.find === undefined ? "" : undefined;
      void this.updateComplete.then(() => this.querySelector<HTMLInputElement>(".find")?.focus());
    }
  }

  protected firstUpdated(): void {
    this.growth.observe(this.querySelector(".column")!);
  }

  private settle(): void {
    const scroller = this.querySelector(".talk");
    if (scroller && this.stick && this.last === undefined) scroller.scrollTop = scroller.scrollHeight;
  }

  protected updated(): void {
    this.settle();
    document.title = `${oneLine(this.session?.displayName ?? this.key, 60)} · OpenClaw`;
  }

  private scrolled(event: Event): void {
    const { scrollTop, scrollHeight, clientHeight } = event.target as HTMLElement;
    const below = scrollHeight - scrollTop - clientHeight;
    // Content that grows moves the end away from us; only a person moves us away from the end.
    if (scrollTop < this.seen - 2) this.stick = false;
    else if (below < 60 && this.last === undefined) this.stick = true;
    this.seen = scrollTop;
    if (this.loading || this.find !== undefined) return;
    const end = this.last ?? this.talk.rows.length;
    if (scrollTop < 300 && end > WINDOW && !this.stick) void this.slid(end - PAGE);
    else if (scrollTop < 300) void this.older();
    else if (below < 300 && this.last !== undefined) void this.slid(end + PAGE);
  }

  private async slid(end: number): Promise<void> {
    this.loading = true;
    await this.slide(end);
    this.loading = false;
  }

  render() {
    const { talk } = this;
    const busy = Boolean(talk.live);
    const find = this.find?.trim().toLowerCase();
    const end = this.last ?? talk.rows.length;
    const rows = find
      ? talk.rows.filter((row) => textOf(row.message).toLowerCase().includes(find)).slice(-WINDOW)
      : talk.rows.slice(Math.max(0, end - WINDOW), end);
    return html`<header class="bar">
        <h1>${oneLine(this.session?.displayName ?? this.key)}</h1>
        <span class="hint">${this.facts()}</span>
        <button type="button" class="quiet" title="Search this conversation (Ctrl+/)" @click=${() => (this.find = this.find === undefined ? "" : undefined)}>Search</button>
      </header>
      ${this.find !== undefined
        ? html`<input class="find" type="search" aria-label="Search in this conversation" placeholder="Search in what is loaded" .value=${this.find} @input=${(event: Event) => (this.find = (event.target as HTMLInputElement).value)} />`
        : nothing}
      <div class="talk" role="log" aria-live="polite" aria-label="Conversation" tabindex="0" @scroll=${this.scrolled}>
        <div class="column">
          ${talk.more ? html`<button type="button" class="quiet older" @click=${() => void this.older()}>Show older messages</button>` : nothing}
          ${talk.loaded && !rows.length && !talk.pending.length && !busy && !talk.said.length
            ? html`<p class="empty">${find ? "Nothing here says that." : "Nothing has been said here yet. Write a message below."}</p>`
            : nothing}
          ${repeat(rows, (row) => row.id, (row) => this.row(row))} ${talk.said.map(said)}
          ${talk.live ? this.live() : nothing} ${talk.pending.map((each) => this.waiting(each, busy))}
          <oc-approvals .sessionKey=${talk.key}></oc-approvals>
          ${talk.problem || this.problem ? html`<p class="problem" role="alert">${talk.problem || this.problem}</p>` : nothing}
        </div>
      </div>
      ${this.last === undefined ? nothing : html`<button type="button" class="latest" @click=${this.latest}>To the newest message</button>`}
      <oc-composer .busy=${busy} .waiting=${busy ? talk.pending.length : 0} @message=${this.send} @stop=${() => void this.stop()}></oc-composer>`;
  }

  private facts(): string {
    const row = this.session;
    if (!row) return "";
    const used = row.contextTokens ? `${tokens(row.totalTokens)} of ${tokens(row.contextTokens)} tokens` : "";
    return [row.model, used, dollars(row.estimatedCostUsd)].filter(Boolean).join(" · ");
  }

  private row(row: Row): TemplateResult | typeof nothing {
    const { message } = row;
    if (row.role === "toolResult") return nothing;
    if (row.role === "user") return this.user(textOf(message), [], clock(message.timestamp), "", row.id);
    const blocks = Array.isArray(message.content) ? message.content : [];
    return html`<article class="assistant" aria-label="Assistant" data-id=${row.id}>
      ${blocks.map((block: Json) => this.block(block))}
      ${message.errorMessage ? html`<p class="problem">${message.errorMessage}</p>` : nothing}
      ${message.stopReason === "aborted" ? html`<p class="hint">stopped</p>` : nothing}
      ${textOf(message).trim()
        ? html`<footer><time>${clock(message.timestamp)}</time> <button type="button" class="quiet" @click=${(event: Event) => void copy(event.currentTarget as HTMLElement, textOf(message))}>Copy</button></footer>`
        : nothing}
    </article>`;
  }

  private block(block: Json): TemplateResult | typeof nothing {
    if (block.type === "text") return block.text.trim() ? html`<oc-markdown class="md" .text=${block.text}></oc-markdown>` : nothing;
    if (block.type === "thinking") return thinking(block.thinking ?? block.text ?? "");
    if (block.type === "toolCall") {
      const live = this.talk.tools.get(block.id);
      const result = this.talk.results.get(block.id)?.message;
      const state = result ? (result.isError ? "failed" : "done") : live && !live.done ? "running" : live?.failed ? "failed" : live ? "done" : this.talk.live ? "running" : "done";
      return html`<oc-tool .name=${block.name} .args=${block.arguments} .output=${result ? textOf(result) : (live?.output ?? "")} .state=${state}></oc-tool>`;
    }
    return nothing;
  }

  private live() {
    const live = this.talk.live!;
    return html`<article class="assistant live" aria-label="Assistant" aria-busy="true">
      ${live.thinking ? thinking(live.thinking) : nothing}
      ${live.text ? html`<oc-markdown class="md" .text=${live.text}></oc-markdown>` : nothing}
      ${live.note ? html`<p class="hint">${live.note}</p>` : nothing}
      <p class="working" aria-label="working"><span></span><span></span><span></span></p>
    </article>`;
  }

  private user(text: string, images: string[], note: string, problem = "", id = "") {
    return html`<article class="user" aria-label="You" data-id=${id || nothing}>
      <div class="bubble">
        ${images.map((url) => html`<img src=${url} alt="attached" />`)}
        <p>${text}</p>
      </div>
      <footer>
        ${note ? html`<span class=${problem ? "problem" : ""}>${problem || note}</span>` : nothing}
        <button type="button" class="quiet" @click=${() => this.edit(text)}>Edit and send again</button>
      </footer>
    </article>`;
  }

  private waiting(each: Pending, busy: boolean) {
    return this.user(each.text, each.images, busy ? "waiting for its turn" : "sending", each.problem);
  }

  private edit(text: string): void {
    this.querySelector<HTMLElement & { put(text: string): void }>("oc-composer")?.put(text);
  }
}
customElements.define("oc-chat", Chat);

function said(each: { asked: string; text: string }) {
  return html`<article class="said" aria-label="The gateway">
    <p class="hint">${each.asked}</p>
    <oc-markdown class="md" .text=${each.text}></oc-markdown>
  </article>`;
}

function thinking(text: string) {
  return text.trim() ? html`<details class="thinking"><summary>Thinking</summary><p>${text}</p></details>` : nothing;
}
