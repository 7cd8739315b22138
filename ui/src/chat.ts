// The chat page: one conversation, what streams into it, and where it is looked at.

import { html, nothing } from "lit";
import { repeat } from "lit/directives/repeat.js";
import "./approvals.js";
import "./composer.js";
import { Element } from "./element.js";
import { gateway, type Json } from "./gateway.js";
import { apart, rowView, saidView, streaming, waiting, type Acts } from "./message.js";
import { address } from "./place.js";
import { planCard, steps, type Step } from "./plan.js";
import "./search.js";
import { Talk, type Pending } from "./talk.js";
import { dollars, modelOf, oneLine, tokens } from "./text.js";

const PAGE = 80;
/** How much is fetched at once on the way to a message far back. */
const LEAP = 500;
/** Rows on the page at the same time; the others are remembered, not drawn. */
const WINDOW = 200;
/** Whole answers, as they were given: the most that the gateway gives. */
const WHOLE = { maxChars: 500_000, maxBytes: 8_000_000 };
const AWAY = "waits for the connection";

class Chat extends Element {
  static properties = { key: {}, session: { state: true }, problem: { state: true }, find: { state: true }, dragged: { state: true }, editing: { state: true }, unfolded: { state: true } };
  declare key: string;
  declare session: Json;
  declare problem: string;
  declare find: boolean;
  /** A file is over the page. */
  declare dragged: boolean;
  /** The message that is sent again; what follows it is taken back then. */
  declare editing: string;
  declare unfolded: boolean;
  private offline = false;
  private talk = new Talk();
  private card: Step[] | undefined;
  private stick = true;
  private loading = false;
  /** Somebody scrolled while something was on its way. */
  private missed = false;
  private visiting = false;
  private seen = 0;
  /** How tall the conversation was when it was last looked at. */
  private tall = 0;
  private growth = new ResizeObserver(() => this.settle());
  /** Where the drawn rows end; at the newest when there is none. */
  private last: number | undefined;
  private acts: Acts = {
    edit: (text, id) => this.edit(text, id),
    drop: (each) => void this.attempt(() => gateway.call("chat.abort", { sessionKey: this.talk.key, runId: each.runId })),
  };

  connectedCallback(): void {
    super.connectedCallback();
    this.hear("hello", () => void this.load());
    this.hear("gap", () => void this.load());
    for (const name of ["models.changed", "config.changed"]) this.hear(name, () => this.offline && void this.load());
    this.listenTo(window, "dragenter", (event: DragEvent) => (this.dragged = event.dataTransfer?.types.includes("Files") ?? false));
    this.listenTo(window, "dragleave", (event: DragEvent) => event.relatedTarget === null && (this.dragged = false));
    this.listenTo(window, "drop", (event: DragEvent) => this.dropped(event));
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
      this.card = undefined;
      this.find = false;
      this.editing = "";
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

  private async attempt(work: () => Promise<unknown>): Promise<void> {
    try {
      await work();
      this.problem = "";
    } catch (error) {
      this.problem = (error as Error).message;
    }
  }

  private told(payload: Json): void {
    this.change(() => this.talk.chat(payload));
    // What was said until then is on record, and nobody has told us of it.
    if (payload.state === "aborted" || payload.state === "error") void this.load();
  }

  private changed(payload: Json): void {
    if (["reset", "rewind", "delete"].includes(payload.reason)) void this.load(true);
    else if (payload.session) this.session = payload.session;
    else if (payload.reason === "send" && this.talk.live) void this.attempt(() => this.queue());
    else if (["end", "error", "send"].includes(payload.phase ?? payload.reason)) void this.attempt(() => this.describe());
  }

  private async load(anew = false): Promise<void> {
    const { key, talk } = this;
    await this.attempt(async () => {
      await gateway.call("sessions.subscribe", {});
      await gateway.call("sessions.messages.subscribe", { key });
      talk.asking();
      const history = await gateway.call("chat.startup", { sessionKey: key, limit: PAGE, ...WHOLE });
      if (talk !== this.talk) return;
      const { problem } = talk;
      talk.load(history, anew);
      talk.problem = problem;
      this.session = history.sessionInfo;
      this.offline = history.defaults?.modelProvider === "offline";
      if (anew) this.last = undefined;
      this.resend();
      if (talk.more && !talk.plan && gateway.offers("progressCard.get")) {
        const { card } = await gateway.call("progressCard.get", { sessionKey: key });
        this.card = steps({ plan: card?.steps });
      } else this.card = undefined;
    });
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

  private async queue(): Promise<void> {
    const { talk } = this;
    const { pendingInputs } = await gateway.call("chat.history", { sessionKey: talk.key, limit: 1 });
    this.change(() => talk.queued(pendingInputs));
  }

  private async older(limit = PAGE): Promise<void> {
    if (this.loading || !this.talk.more) return;
    this.loading = true;
    const { talk } = this;
    try {
      const page = await gateway.call("chat.history", { sessionKey: talk.key, limit, offset: talk.nextOffset, ...WHOLE });
      const before = talk.rows.length;
      const end = this.last ?? before;
      talk.page(page);
      const added = talk.rows.length - before;
      await this.slide(end + added - (end + added > WINDOW ? PAGE : 0));
    } catch (error) {
      this.problem = (error as Error).message;
    } finally {
      this.loaded();
    }
  }

  /** Draws other rows and keeps what is being read where it is. */
  private async slide(end: number): Promise<void> {
    const scroller = this.querySelector(".talk")!;
    const edge = scroller.getBoundingClientRect().top;
    const anchor = [...this.querySelectorAll<HTMLElement>("article[data-id]")].find((each) => each.getBoundingClientRect().bottom > edge);
    const at = anchor?.getBoundingClientRect().top ?? 0;
    this.draw(end);
    await this.updateComplete;
    if (anchor?.isConnected) scroller.scrollTop += anchor.getBoundingClientRect().top - at;
  }

  private draw(end: number): void {
    this.last = end >= this.talk.rows.length ? undefined : Math.max(end, Math.min(WINDOW, this.talk.rows.length));
    this.requestUpdate();
  }

  /** Goes to a message, however far back it is. */
  private async visit(id: string): Promise<void> {
    const { talk } = this;
    this.find = false;
    this.stick = false;
    this.visiting = true;
    while (!talk.has(id) && talk.more && talk === this.talk) {
      const before = talk.rows.length;
      await this.older(LEAP);
      if (talk.rows.length === before) break;
    }
    this.visiting = false;
    const place = talk.rows.findIndex((row) => row.id === id);
    if (place < 0) return;
    this.draw(place + WINDOW / 2);
    await this.updateComplete;
    const found = this.querySelector<HTMLElement>(`article[data-id="${CSS.escape(id)}"]`);
    found?.scrollIntoView({ block: "center" });
    found?.classList.add("found");
    setTimeout(() => found?.classList.remove("found"), 4000);
  }

  private latest(): void {
    this.last = undefined;
    this.stick = true;
    this.requestUpdate();
  }

  private async send(event: CustomEvent): Promise<void> {
    const { text, attached } = event.detail as Pick<Pending, "text" | "attached">;
    const pending: Pending = { runId: crypto.randomUUID(), text, attached, at: Date.now() };
    const again = this.editing;
    this.editing = "";
    this.talk.problem = "";
    this.stick = true;
    this.last = undefined;
    if (again) {
      try {
        const undone = await gateway.call("sessions.rewind", { sessionKey: this.talk.key, entryId: again });
        this.talk.cut(again);
        // What came with the message goes with it again.
        pending.text = [text, ...apart(undone.editorText ?? "").told].join("\n");
        const images: Json[] = undone.editorAttachments ?? [];
        pending.attached = [...attached, ...images.map(({ mimeType, data }) => ({ name: "image", kind: mimeType, content: `data:${mimeType};base64,${data}` }))];
      } catch (error) {
        // Nothing was taken back, so nothing is sent: the words go back to where they were.
        this.problem = (error as Error).message;
        this.edit(text, again);
        return;
      }
    }
    this.talk.pending.push(pending);
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
        ...(pending.attached.length ? { attachments: pending.attached.map(({ name, kind, content }) => ({ fileName: name, mimeType: kind, content })) } : {}),
      });
    } catch (error) {
      const failed = error as { code?: string; message: string };
      pending.problem = failed.code === "AWAY" || failed.code === "TIMEOUT" ? AWAY : failed.message;
    }
    this.requestUpdate();
  }

  private dropped(event: DragEvent): void {
    this.dragged = false;
    const files = [...(event.dataTransfer?.files ?? [])];
    if (files.length && !document.querySelector("dialog[open]")) void this.composer?.attach(files);
  }

  private get composer(): (HTMLElement & { put(text: string): void; attach(files: Iterable<File>): Promise<void> }) | null {
    return this.querySelector("oc-composer");
  }

  private async stop(): Promise<void> {
    await this.attempt(() => gateway.call("chat.abort", { sessionKey: this.talk.key }));
  }

  private typed(event: KeyboardEvent): void {
    if (document.querySelector("dialog[open]")) return;
    if (event.key === "Escape" && this.find) this.find = false;
    else if (event.key === "Escape" && this.editing) this.edit("", "");
    else if (event.key === "Escape" && this.talk.live) void this.stop();
    else if (event.key === "/" && event.ctrlKey) this.find = !this.find;
    else return;
    event.preventDefault();
  }

  protected firstUpdated(): void {
    for (const each of this.querySelectorAll(".column, .talk")) this.growth.observe(each);
  }

  private settle(): void {
    const scroller = this.querySelector(".talk");
    if (!scroller) return;
    if (this.stick && this.last === undefined) scroller.scrollTop = scroller.scrollHeight;
    this.seen = Math.min(this.seen, scroller.scrollTop);
    this.tall = scroller.scrollHeight;
  }

  protected updated(): void {
    this.settle();
    document.title = `${oneLine(this.session?.displayName ?? this.key, 60)} · OpenClaw`;
  }

  private scrolled(event: Event): void {
    this.look(event.target as HTMLElement);
  }

  private look({ scrollTop, scrollHeight, clientHeight }: HTMLElement): void {
    const below = scrollHeight - scrollTop - clientHeight;
    // Content that grows moves the end away from us, and what shrinks, such as an answered question, moves us up; only a
    // person moves us away from the end.
    const shrunk = scrollHeight < this.tall;
    this.tall = scrollHeight;
    if (scrollTop < this.seen - 2 && below > 2 && !shrunk) this.stick = false;
    else if (below < 60 && this.last === undefined) this.stick = true;
    this.seen = scrollTop;
    this.missed = this.loading;
    if (this.loading) return;
    const end = this.last ?? this.talk.rows.length;
    if (scrollTop < 300 && end > WINDOW && !this.stick) void this.slid(end - PAGE);
    else if (scrollTop < 300) void this.older();
    else if (below < 300 && this.last !== undefined) void this.slid(end + PAGE);
  }

  private async slid(end: number): Promise<void> {
    this.loading = true;
    await this.slide(end);
    this.loaded();
  }

  /** Who scrolled on in the meantime is not left waiting. */
  private loaded(): void {
    this.loading = false;
    const scroller = this.querySelector<HTMLElement>(".talk");
    if (this.missed && !this.visiting && scroller) this.look(scroller);
  }

  render() {
    const { talk } = this;
    const busy = Boolean(talk.live);
    const end = this.last ?? talk.rows.length;
    const rows = talk.rows.slice(Math.max(0, end - WINDOW), end);
    const empty = talk.loaded && !rows.length && !talk.pending.length && !busy && !talk.said.length;
    // What the gateway answered to a command is nowhere on record; it stays where it was said.
    const told = (from: number, to: number) => talk.said.filter((each) => each.after >= from && each.after < to).map(saidView);
    return html`<header class="bar">
        <h1>${oneLine(this.session?.displayName ?? this.key)}</h1>
        <span class="hint">${this.facts()}</span>
        <button type="button" class="quiet" title="Search this conversation (Ctrl+/)" aria-pressed=${this.find ?? false} @click=${() => (this.find = !this.find)}>Search</button>
      </header>
      ${this.find ? html`<oc-search .key=${talk.key} @close=${() => (this.find = false)} @found=${(event: CustomEvent) => void this.visit(event.detail)}></oc-search>` : nothing}
      <div class="talk" role="log" aria-live="polite" aria-label="Conversation" tabindex="0" @scroll=${this.scrolled}>
        <div class="column">
          ${talk.more && end <= WINDOW ? html`<button type="button" class="quiet older" @click=${() => void this.older()}>Show older messages</button>` : nothing}
          ${empty ? this.welcome() : nothing}
          ${end <= WINDOW ? told(-Infinity, rows[0]?.seq ?? Infinity) : nothing}
          ${repeat(rows, (row) => row.id, (row, place) => html`${rowView(talk, row, this.acts)}${told(row.seq, rows[place + 1]?.seq ?? Infinity)}`)}
          ${busy ? streaming(talk) : nothing} ${talk.pending.map((each) => waiting(each, busy, this.acts))}
          <oc-approvals .sessionKey=${talk.key}></oc-approvals>
          ${this.trouble()}
        </div>
      </div>
      ${this.dragged ? html`<p class="drop" role="status">Drop it to attach it to your message</p>` : nothing}
      ${this.last === undefined ? nothing : html`<button type="button" class="latest" @click=${this.latest}>To the newest message</button>`}
      ${this.plan()}
      ${this.editing
        ? html`<p class="editing" role="status">Sending this takes back your message and everything after it. <button type="button" class="quiet" @click=${() => this.edit("", "")}>Keep it</button></p>`
        : nothing}
      <oc-composer .key=${this.key} .busy=${busy} .waiting=${busy ? talk.pending.length : 0} @message=${(event: CustomEvent) => void this.send(event)} @stop=${() => void this.stop()}></oc-composer>`;
  }

  private welcome() {
    return html`<p class="empty">Nothing has been said here yet. Write a message below.</p>
      ${this.offline
        ? html`<div class="empty"><p>No model is set up yet, so only a few things work.</p><p><a class="button" href=${address("models")}>Connect a model</a></p></div>`
        : nothing}`;
  }

  /** What went wrong, said once: a failed answer on record says it already. */
  private trouble() {
    const { talk } = this;
    const last = talk.rows.at(-1)?.message;
    const told = last?.errorMessage && last.errorMessage === talk.problem;
    const text = (told ? "" : talk.problem) || this.problem;
    const failed = talk.problem && !talk.live;
    return html`${text ? html`<p class="problem" role="alert">${text}</p>` : nothing}
    ${failed && gateway.offers("models.setup") ? html`<p class="hint"><a href=${address("models")}>Try the model, or connect another one</a></p>` : nothing}`;
  }

  /** The plan, for as long as there is something left to do. */
  private plan() {
    const plan = this.talk.plan ?? this.card;
    if (!plan || (!this.talk.live && plan.every((each) => each.status === "completed"))) return nothing;
    return planCard(plan, this.unfolded ?? innerHeight > 700, () => (this.unfolded = !(this.unfolded ?? innerHeight > 700)));
  }

  private facts(): string {
    const row = this.session;
    if (!row) return "";
    const used = row.contextTokens ? `${tokens(row.totalTokens)} of ${tokens(row.contextTokens)} tokens` : "";
    return [modelOf(row), used, dollars(row.estimatedCostUsd)].filter(Boolean).join(" · ");
  }

  private edit(text: string, id: string): void {
    this.editing = id;
    this.composer?.put(text);
  }
}
customElements.define("oc-chat", Chat);
