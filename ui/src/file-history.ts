// What a workspace file said before: version by version, with what each changed.

import { html, nothing } from "lit";
import { lines } from "./diff.js";
import { diffView } from "./diff-view.js";
import { gateway, type Json } from "./gateway.js";
import { Page } from "./page.js";
import { ago, bytes } from "./text.js";

const BY: Record<string, string> = { edit: "here", run: "by the assistant", elsewhere: "elsewhere" };

class FileHistory extends Page {
  static properties = { agent: {}, file: { attribute: false }, versions: { state: true }, chosen: { state: true } };
  declare agent: string;
  declare file: Json;
  declare versions: Json[] | undefined;
  declare chosen: { id: string; now: string; before: string } | undefined;

  protected async load(): Promise<void> {
    const where = { agentId: this.agent, name: this.file.name };
    this.versions = (await gateway.call("agents.files.history", where)).versions;
  }

  willUpdate(changed: Map<string, unknown>): void {
    if (changed.has("file") && changed.get("file") !== undefined) {
      this.chosen = undefined;
      void this.attempt(() => this.load());
    }
  }

  private async read(id: string | undefined): Promise<string> {
    if (!id) return "";
    return (await gateway.call("agents.files.version", { agentId: this.agent, name: this.file.name, version: id })).content;
  }

  private async choose(place: number): Promise<void> {
    const { id } = this.versions![place]!;
    if (this.chosen?.id === id) {
      this.chosen = undefined;
      return;
    }
    await this.attempt(async () => {
      const [now, before] = await Promise.all([this.read(id), this.read(this.versions![place + 1]?.id)]);
      this.chosen = { id, now, before };
    });
  }

  render() {
    if (!this.versions) return this.problem ? html`<p class="problem" role="alert">${this.problem}</p>` : nothing;
    if (!this.versions.length) {
      return html`<p class="hint">Nothing is kept of this file${/^memory\.md$/i.test(this.file.name) ? ", because what you forget must be gone" : " yet"}.</p>`;
    }
    return html`<ol class="versions">${this.versions.map((each, place) => this.version(each, place))}</ol>`;
  }

  private version(each: Json, place: number) {
    const open = this.chosen?.id === each.id;
    const current = each.hash === this.file.hash;
    return html`<li>
      <button type="button" class="quiet" aria-expanded=${open} @click=${() => void this.choose(place)}>${ago(each.at)} <small>changed ${BY[each.by]} · ${bytes(each.size)}${current ? " · as it is now" : ""}</small></button>
      ${open
        ? html`${diffView(`${this.file.name}, ${new Date(each.at).toLocaleString()}`, lines(this.chosen!.before, this.chosen!.now))}
            ${current ? nothing : html`<div class="buttons"><button type="button" @click=${() => this.dispatchEvent(new CustomEvent("restore", { detail: this.chosen!.now }))}>Put this version into the editor</button></div>`}`
        : nothing}
    </li>`;
  }
}
customElements.define("oc-file-history", FileHistory);
