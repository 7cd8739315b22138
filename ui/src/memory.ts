// Notes, found by words and by meaning.

import { html, nothing } from "lit";
import { gateway, type Json } from "./gateway.js";
import { Page } from "./page.js";

class Memory extends Page {
  static properties = { found: { state: true }, busy: { state: true } };
  declare found: Json;
  declare busy: boolean;

  private async search(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    const query = String(new FormData(event.target as HTMLFormElement).get("query")).trim();
    if (!query) return;
    this.busy = true;
    await this.attempt(async () => {
      this.found = await gateway.call("memory.search", { query, maxResults: 20 });
    });
    this.busy = false;
  }

  render() {
    const { found } = this;
    return this.frame(
      "Memory",
      html`<form class="search" role="search" @submit=${this.search}>
          <input type="search" name="query" aria-label="Search the notes" placeholder="What do you want to find?" required />
          <button class="primary" ?disabled=${this.busy}>Search</button>
        </form>
        ${found
          ? html`<p class="hint" role="status">${found.results.length} found${found.mode ? ` by ${found.mode}` : ""}${found.model ? ` with ${found.model}` : ""}${found.reason ? ` (${found.reason})` : ""}</p>
              ${found.results.map(note)}`
          : html`<p class="empty">What the assistant wrote down, and what was said before.</p>`}`,
    );
  }
}
customElements.define("oc-memory", Memory);

function note(each: Json) {
  const part = (name: string, value: number | undefined) => (value === undefined ? nothing : html` · ${name} ${value.toFixed(2)}`);
  return html`<article class="note">
    <h3>${each.path}<span class="hint">, lines ${each.startLine} to ${each.endLine}</span></h3>
    <p class="hint">score ${each.score.toFixed(2)}${part("meaning", each.vectorScore)}${part("words", each.textScore)} · ${each.source}</p>
    <pre tabindex="0">${each.snippet}</pre>
  </article>`;
}
