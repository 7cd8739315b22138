// The workspace files that shape the assistant.

import { html, nothing } from "lit";
import "./file-history.js";
import { gateway, type Json } from "./gateway.js";
import { ask, Page } from "./page.js";
import { ago, bytes } from "./text.js";

class Files extends Page {
  static properties = { agents: { state: true }, agent: { state: true }, files: { state: true }, file: { state: true }, text: { state: true }, past: { state: true } };
  declare agents: Json[];
  declare agent: string;
  declare files: Json[];
  declare file: Json;
  declare text: string;
  /** Whether its earlier versions are shown. */
  declare past: boolean;

  constructor() {
    super();
    this.agents = [];
    this.files = [];
    this.agent = "";
    this.text = "";
  }

  connectedCallback(): void {
    super.connectedCallback();
    this.listenTo(window, "beforeunload", (event: BeforeUnloadEvent) => this.dirty && event.preventDefault());
  }

  private get dirty(): boolean {
    return Boolean(this.file) && this.text !== (this.file.content ?? "");
  }

  protected async load(): Promise<void> {
    const found = await gateway.call("agents.list");
    this.agents = found.agents;
    this.agent ||= found.defaultId;
    this.files = (await gateway.call("agents.files.list", { agentId: this.agent })).files;
  }

  private async open(name: string): Promise<void> {
    if (this.dirty && (await ask(`Leave ${this.file.name} without saving?`, { yes: "Leave" })) === null) return;
    await this.attempt(async () => {
      this.file = (await gateway.call("agents.files.get", { agentId: this.agent, name })).file;
      this.text = this.file.content ?? "";
    });
  }

  private async save(): Promise<void> {
    const { file, text } = this;
    await this.attempt(async () => {
      const expected = file.hash ? { expectedHash: file.hash } : {};
      this.file = (await gateway.call("agents.files.set", { agentId: this.agent, name: file.name, content: text, ...expected })).file;
      await this.load();
    }, `${file.name} is saved. It counts from the next message on.`);
  }

  private pressed(event: KeyboardEvent): void {
    if (event.key === "s" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      void this.save();
    }
  }

  render() {
    const choice = this.agents.length > 1
      ? html`<select aria-label="Agent" @change=${(event: Event) => ((this.agent = (event.target as HTMLSelectElement).value), (this.file = undefined), void this.attempt(() => this.load()))}>${this.agents.map((each) => html`<option value=${each.id} ?selected=${each.id === this.agent}>${each.name ?? each.id}</option>`)}</select>`
      : nothing;
    return this.frame(
      "Files",
      html`<div class="split">
        <ul class="list" aria-label="Workspace files">
          ${this.files.map((each) => html`<li><button type="button" class="quiet" aria-current=${this.file?.name === each.name ? "true" : nothing} @click=${() => void this.open(each.name)}>${each.name}<small>${each.missing ? "not there yet" : `${bytes(each.size)} · ${ago(each.updatedAtMs)}`}</small></button></li>`)}
        </ul>
        ${this.file
          ? html`<div class="editor">
              <textarea aria-label=${this.file.name} spellcheck="false" .value=${this.text} @input=${(event: Event) => (this.text = (event.target as HTMLTextAreaElement).value)} @keydown=${this.pressed}></textarea>
              <div class="buttons"><button type="button" class="primary" ?disabled=${!this.dirty} @click=${() => void this.save()}>Save</button><button type="button" ?disabled=${!this.dirty} @click=${() => (this.text = this.file.content ?? "")}>Undo changes</button><button type="button" aria-pressed=${this.past ?? false} @click=${() => (this.past = !this.past)}>History</button></div>
              ${this.past ? html`<oc-file-history .agent=${this.agent} .file=${this.file} @restore=${(event: CustomEvent) => (this.text = event.detail)}></oc-file-history>` : nothing}
            </div>`
          : html`<p class="empty">These files are part of every prompt. Choose one to read or change it.</p>`}
      </div>`,
      choice,
    );
  }
}
customElements.define("oc-files", Files);
