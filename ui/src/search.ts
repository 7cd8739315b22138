// Words in this conversation, all of it: the gateway looks, the page goes there.

import { html, nothing } from "lit";
import { Element } from "./element.js";
import { gateway, type Json } from "./gateway.js";
import { ago, oneLine } from "./text.js";

const WAIT_MS = 200;

class Search extends Element {
  static properties = { key: {}, hits: { state: true }, problem: { state: true } };
  declare key: string;
  declare hits: Json[] | undefined;
  declare problem: string;
  private planned = 0;
  private query = "";

  protected firstUpdated(): void {
    this.querySelector("input")!.focus();
  }

  private typed(event: Event): void {
    this.query = (event.target as HTMLInputElement).value.trim();
    clearTimeout(this.planned);
    this.planned = window.setTimeout(() => void this.look(), WAIT_MS);
  }

  private async look(): Promise<void> {
    const { query } = this;
    this.problem = "";
    if (!query) {
      this.hits = undefined;
      return;
    }
    try {
      const { results } = await gateway.call("sessions.search", { query, sessionKeys: [this.key], limit: 25 });
      if (query === this.query) this.hits = results;
    } catch (error) {
      this.problem = (error as Error).message;
    }
  }

  private pressed(event: KeyboardEvent): void {
    if (event.key === "Escape") this.dispatchEvent(new Event("close"));
    else if (event.key === "Enter" && this.hits?.[0]) this.choose(this.hits[0]);
    else if (event.key === "ArrowDown") {
      event.preventDefault();
      this.querySelector<HTMLElement>(".hits button")?.focus();
    } else return;
    event.stopPropagation();
  }

  private moved(event: KeyboardEvent): void {
    const rows = [...this.querySelectorAll<HTMLElement>(".hits button")];
    const at = rows.indexOf(event.target as HTMLElement);
    if (event.key === "ArrowDown") rows[at + 1]?.focus();
    else if (event.key === "ArrowUp") (rows[at - 1] ?? this.querySelector<HTMLElement>("input"))?.focus();
    else if (event.key === "Escape") {
      this.dispatchEvent(new Event("close"));
      event.stopPropagation();
    } else return;
    event.preventDefault();
  }

  private choose(hit: Json): void {
    this.dispatchEvent(new CustomEvent("found", { detail: hit.messageId }));
  }

  render() {
    return html`<div class="find" role="search">
      <input type="search" aria-label="Search in this conversation" placeholder="Search in this conversation" @input=${this.typed} @keydown=${this.pressed} />
      ${this.hits ? html`<p class="away" role="status">${this.hits.length} found</p>` : nothing}
      ${this.problem ? html`<p class="problem" role="alert">${this.problem}</p>` : nothing}
      ${this.hits?.length
        ? html`<ul class="hits" aria-label="Messages found" @keydown=${this.moved}>${this.hits.map((hit) => html`<li><button type="button" class="quiet" @click=${() => this.choose(hit)}><b>${hit.role === "user" ? "You" : "Assistant"}</b> ${oneLine(hit.snippet, 240)} <small>${ago(hit.timestamp)}</small></button></li>`)}</ul>`
        : this.hits
          ? html`<p class="hint">Nothing here says that.</p>`
          : nothing}
    </div>`;
  }
}
customElements.define("oc-search", Search);
