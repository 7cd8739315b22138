// Notes: found by words and by meaning, opened at the line, changed.

import { html, nothing } from "lit";
import { gateway, type Json } from "./gateway.js";
import { ask, Page } from "./page.js";
import { ago, bytes, visible } from "./text.js";

class Memory extends Page {
  static properties = { found: { state: true }, notes: { state: true }, note: { state: true }, text: { state: true }, busy: { state: true } };
  declare found: Json;
  declare notes: Json[];
  /** The note that is open; one without a hash is not on disk yet. */
  declare note: Json;
  declare text: string;
  declare busy: boolean;

  constructor() {
    super();
    this.notes = [];
    this.text = "";
  }

  connectedCallback(): void {
    super.connectedCallback();
    this.listenTo(window, "beforeunload", (event: BeforeUnloadEvent) => this.dirty && event.preventDefault());
  }

  protected async load(): Promise<void> {
    this.notes = (await gateway.call("memory.notes.list", {})).notes;
  }

  private get dirty(): boolean {
    return Boolean(this.note) && this.text !== this.note.content;
  }

  private async search(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    const query = String(new FormData(event.target as HTMLFormElement).get("query")).trim();
    if (!query || !(await this.leave())) return;
    this.note = undefined;
    this.busy = true;
    await this.attempt(async () => {
      this.found = await gateway.call("memory.search", { query, maxResults: 20 });
    });
    this.busy = false;
  }

  private async leave(): Promise<boolean> {
    return !this.dirty || (await ask(`Leave ${visible(this.note.path)} without saving?`, { yes: "Leave" })) !== null;
  }

  private async open(path: string, first = 0, last = first): Promise<void> {
    if (!(await this.leave())) return;
    await this.attempt(async () => {
      this.note = await gateway.call("memory.notes.get", { path });
      this.text = this.note.content;
    });
    await this.updateComplete;
    if (first) this.reveal(first, last);
  }

  /** Selects lines and brings them into sight. */
  private reveal(first: number, last: number): void {
    const area = this.querySelector<HTMLTextAreaElement>(".editor textarea");
    if (!area) return;
    const lines = this.text.split("\n");
    const start = lines.slice(0, first - 1).join("\n").length + (first > 1 ? 1 : 0);
    area.focus();
    area.setSelectionRange(start, start + lines.slice(first - 1, last).join("\n").length);
    const high = parseFloat(getComputedStyle(area).lineHeight);
    area.scrollTop = Math.max(0, (first - 3) * high);
  }

  private async fresh(): Promise<void> {
    const today = new Date().toISOString().slice(0, 10);
    const path = await ask("Where should the note be? Notes are Markdown files below memory/.", { input: true, value: `memory/${today}-note.md`, yes: "Make it" });
    if (!path?.trim() || !(await this.leave())) return;
    this.note = { path: path.trim(), content: "" };
    this.text = "";
  }

  private async save(): Promise<void> {
    const { note, text } = this;
    await this.attempt(async () => {
      const expected = note.hash ? { expectedHash: note.hash } : {};
      this.note = await gateway.call("memory.notes.set", { path: note.path, content: text, ...expected });
      this.text = this.note.content;
      await this.load();
    }, `${visible(note.path)} is saved.`);
  }

  private pressed(event: KeyboardEvent): void {
    if (event.key === "s" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      void this.save();
    }
  }

  render() {
    return this.frame(
      "Memory",
      html`<form class="search" role="search" @submit=${this.search}>
          <input type="search" name="query" aria-label="Search the notes" placeholder="What do you want to find?" required />
          <button class="primary" ?disabled=${this.busy}>Search</button>
        </form>
        ${this.note ? this.editor() : this.found ? this.results() : this.list()}`,
      html`<button type="button" @click=${() => void this.fresh()}>New note</button>`,
    );
  }

  private list() {
    if (!this.notes.length) return html`<p class="empty">There are no notes yet. The assistant writes some down as you talk; you can too.</p>`;
    return html`<h2>Notes</h2><ul class="list notes">${this.notes.map((each) => html`<li><button type="button" class="quiet" @click=${() => void this.open(each.path)}>${visible(each.path)}<small>${bytes(each.size)} · ${ago(each.updatedAtMs)}</small></button></li>`)}</ul>`;
  }

  private results() {
    const { found } = this;
    return html`<p class="hint" role="status">${found.results.length} found${found.mode ? ` by ${found.mode}` : ""}${found.model ? ` with ${found.model}` : ""}${found.reason ? ` (${found.reason})` : ""}
        <button type="button" class="quiet" @click=${() => (this.found = undefined)}>All notes</button></p>
      ${found.results.map((each: Json) => this.result(each))}`;
  }

  private result(each: Json) {
    const score = (name: string, value: number | undefined) => (value === undefined ? nothing : html` · ${name} ${value.toFixed(2)}`);
    const talk = each.source === "sessions";
    return html`<article class="note">
      <h3>${visible(each.path)}<span class="hint">, lines ${each.startLine} to ${each.endLine}</span>
        ${talk ? nothing : html`<button type="button" class="quiet" @click=${() => void this.open(each.path, each.startLine, each.endLine)}>Open</button>`}</h3>
      <p class="hint">score ${each.score.toFixed(2)}${score("meaning", each.vectorScore)}${score("words", each.textScore)} · ${each.source}${each.label ? ` · ${each.label}` : ""}</p>
      <pre tabindex="0">${visible(each.snippet)}</pre>
    </article>`;
  }

  private editor() {
    const { note } = this;
    return html`<div class="editor">
      <h2>${visible(note.path)} ${note.hash ? nothing : html`<span class="hint">new</span>`}</h2>
      <textarea aria-label=${visible(note.path)} spellcheck="false" .value=${this.text} @input=${(event: Event) => (this.text = (event.target as HTMLTextAreaElement).value)} @keydown=${this.pressed}></textarea>
      <div class="buttons">
        <button type="button" class="primary" ?disabled=${!this.dirty} @click=${() => void this.save()}>Save</button>
        <button type="button" ?disabled=${!this.dirty} @click=${() => (this.text = note.content)}>Undo changes</button>
        <button type="button" @click=${async () => (await this.leave()) && (this.note = undefined)}>Close</button>
      </div>
    </div>`;
  }
}
customElements.define("oc-memory", Memory);
