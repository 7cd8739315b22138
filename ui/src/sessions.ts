// The list of conversations.

import { html, nothing } from "lit";
import { repeat } from "lit/directives/repeat.js";
import { exported, type Format } from "./export.js";
import { begin } from "./fresh.js";
import { gateway, type Json } from "./gateway.js";
import { ask, Page } from "./page.js";
import { address } from "./place.js";
import { ago, dollars, oneLine, save, tokens, visible } from "./text.js";

class Sessions extends Page {
  static properties = { rows: { state: true }, search: { state: true } };
  declare rows: Json[];
  declare search: string;

  constructor() {
    super();
    this.rows = [];
    this.search = "";
  }

  connectedCallback(): void {
    super.connectedCallback();
    this.hear("sessions.changed", () => void this.refresh());
  }

  protected async load(): Promise<void> {
    this.rows = (await gateway.call("sessions.list", { limit: 1000 })).sessions;
  }

  private async rename(row: Json): Promise<void> {
    const label = await ask("Call this conversation", { value: row.displayName, input: true, yes: "Rename" });
    if (label === null) return;
    await this.attempt(() => gateway.call("sessions.patch", { key: row.key, label: label.trim() || null }));
    await this.load();
  }

  private async reset(row: Json): Promise<void> {
    if ((await ask(`Start “${oneLine(row.displayName, 60)}” anew? What was said is kept in an archive.`, { yes: "Start anew" })) === null) return;
    await this.attempt(() => gateway.call("sessions.reset", { key: row.key }), "Started anew.");
    await this.load();
  }

  private async discard(row: Json): Promise<void> {
    if ((await ask(`Delete “${oneLine(row.displayName, 60)}” from the list? Its transcript is set aside on disk.`, { yes: "Delete" })) === null) return;
    await this.attempt(() => gateway.call("sessions.delete", { key: row.key }), "Deleted.");
    await this.load();
  }

  private async export(row: Json, format: Format): Promise<void> {
    await this.attempt(async () => {
      const file = await exported(row, format);
      save(file.name, file.kind, file.text);
    });
  }

  render() {
    const wanted = this.search.trim().toLowerCase();
    const shown = tree(this.rows.filter((row) => !wanted || `${row.key} ${row.displayName}`.toLowerCase().includes(wanted)));
    return this.frame(
      "Conversations",
      html`<input type="search" aria-label="Search conversations" placeholder="Search" @input=${(event: Event) => (this.search = (event.target as HTMLInputElement).value)} />
        <div class="scroller">
          <table>
            <thead>
              <tr><th>Name</th><th>Used</th><th class="model">Model</th><th class="number tokens">Tokens in / out</th><th class="number">Cost</th><th><span class="away">Actions</span></th></tr>
            </thead>
            <tbody>
              ${repeat(shown, ({ row }) => row.key, ({ row, depth }) => this.row(row, depth))}
            </tbody>
          </table>
        </div>
        ${shown.length ? nothing : html`<p class="empty">No conversation ${wanted ? "is called that" : "yet"}.</p>`}`,
      html`<button type="button" class="primary" @click=${() => void this.attempt(begin)}>New conversation</button>`,
    );
  }

  private row(row: Json, depth: number) {
    const act = (label: string, work: () => Promise<void>) => html`<button type="button" class="quiet" @click=${(event: Event) => ((event.currentTarget as HTMLElement).closest("details")!.open = false, void work())}>${label}</button>`;
    return html`<tr data-key=${row.key}>
      <td class="name depth-${Math.min(depth, 4)}" title=${visible(row.key)}><a href=${address("chat", row.key)}>${oneLine(row.displayName)}</a></td>
      <td class="when">${row.hasActiveRun ? html`<span class="dot"></span> now` : ago(row.updatedAt)}</td>
      <td class="when model">${oneLine(row.model ?? "", 40)}</td>
      <td class="number tokens">${tokens(row.inputTokens)} / ${tokens(row.outputTokens)}</td>
      <td class="number">${dollars(row.estimatedCostUsd)}</td>
      <td>
        <details class="actions"><summary aria-label="Actions for ${oneLine(row.displayName, 40)}">⋯</summary>
          <div>
            ${act("Copy its key", () => navigator.clipboard.writeText(row.key))} ${act("Rename", () => this.rename(row))} ${act("Start anew", () => this.reset(row))} ${act("Delete", () => this.discard(row))}
            ${act("Export as page", () => this.export(row, "html"))} ${act("Export as Markdown", () => this.export(row, "md"))} ${act("Export as JSON", () => this.export(row, "json"))}
          </div>
        </details>
      </td>
    </tr>`;
  }
}
customElements.define("oc-sessions", Sessions);

/** Conversations with those they started below them. */
function tree(rows: Json[]): { row: Json; depth: number }[] {
  const keys = new Set(rows.map((row) => row.key));
  const below = new Map<string, Json[]>();
  const roots: Json[] = [];
  for (const row of rows) {
    const parent = row.spawnedBy ?? row.parentSessionKey;
    if (parent && parent !== row.key && keys.has(parent)) below.set(parent, [...(below.get(parent) ?? []), row]);
    else roots.push(row);
  }
  const found: { row: Json; depth: number }[] = [];
  const walk = (row: Json, depth: number) => {
    if (depth > 20) return;
    found.push({ row, depth });
    for (const child of below.get(row.key) ?? []) walk(child, depth + 1);
  };
  for (const root of roots) walk(root, 0);
  return found;
}
