// The prompt inspector: what was sent to the model, where it came from, what it cost, what changed.

import { html, nothing } from "lit";
import { lines } from "./diff.js";
import { diffView } from "./diff-view.js";
import { gateway, type Json } from "./gateway.js";
import { Page } from "./page.js";
import { clock, tokens, visible } from "./text.js";

const LEGEND = [
  ["label-system", "ours"],
  ["label-owner", "yours"],
  ["label-workspace", "workspace"],
  ["label-agent", "the agent's"],
  ["label-skill", "skills"],
  ["label-stranger", "others"],
  ["label-system cached", "striped: unchanged, so cached"],
] as const;

class Prompt extends Page {
  static properties = { key: {}, chosen: { state: true } };
  declare key: string;
  declare chosen: string;
  private found: Json;
  /** The texts of the run before, once somebody wants to see what changed in them. */
  private earlier: { runId: string; texts: Record<string, string> } | undefined;

  connectedCallback(): void {
    super.connectedCallback();
    this.hear("chat", (payload) => payload.state === "final" && !this.chosen && void this.refresh());
  }

  willUpdate(changed: Map<string, unknown>): void {
    if (changed.has("key") && changed.get("key") !== undefined) {
      this.chosen = "";
      this.found = undefined;
      void this.attempt(() => this.load());
    }
  }

  protected async load(): Promise<void> {
    const which = this.chosen ? { runId: this.chosen } : { sessionKey: this.key };
    this.found = await gateway.call("prompt.report", { ...which, includeText: true });
    if (this.earlier?.runId !== this.found.diff?.previousRunId) this.earlier = undefined;
  }

  private choose(event: Event): void {
    this.chosen = (event.target as HTMLSelectElement).value;
    void this.attempt(() => this.load());
  }

  render() {
    const found = this.found;
    if (!found) return this.frame("Prompt", this.problem ? nothing : html`<p class="empty">Loading…</p>`);
    const { report } = found;
    const cached = new Set<string>(found.cached);
    const all = report.sections.reduce((sum: number, line: Json) => sum + line.tokens, 0);
    const reused = report.sections.reduce((sum: number, line: Json) => sum + (cached.has(line.id) ? line.tokens : 0), 0);
    return this.frame(
      "Prompt",
      html`<p class="hint">${report.provider}/${report.model} · ${tokens(all)} tokens in ${report.sections.length} sections · ${tokens(reused)} unchanged at the start, so a provider's cache can serve them</p>
        <div class="stack" role="img" aria-label="Sections by size">
          ${report.sections.map((line: Json) => html`<a href="#" @click=${(event: Event) => show(event, line.id)} class="label-${line.label} ${cached.has(line.id) ? "cached" : ""}" data-size=${Math.max(line.tokens, 1)} title="${line.id}: ${line.tokens} tokens"></a>`)}
        </div>
        <p class="legend">${LEGEND.map(([kind, label]) => html`<span><i class="swatch ${kind}"></i>${label}</span>`)}</p>
        ${this.changes(found.diff)}
        <h2>Sections</h2>
        ${report.sections.map((line: Json) => this.section(line, found.texts?.[line.id] ?? "", cached.has(line.id)))}
        <h2>Tools</h2>
        <p class="hint">${report.tools.entries.length} tools, ${report.tools.schemaChars.toLocaleString()} characters of schema sent beside the prompt: ${report.tools.entries.map((each: Json) => each.name).join(", ")}</p>`,
      html`<select aria-label="Run" @change=${this.choose}>${found.runs.map((each: Json) => html`<option value=${each.runId} ?selected=${each.runId === found.runId}>${new Date(each.createdAt).toLocaleDateString()} ${clock(each.createdAt)} · ${each.runId.slice(0, 8)}</option>`)}</select>`,
    );
  }

  protected updated(): void {
    // Through the object model, because the policy of the page allows no style attributes.
    for (const bar of this.querySelectorAll<HTMLElement>(".stack a")) bar.style.flexGrow = bar.dataset.size!;
  }

  private changes(diff: Json) {
    if (!diff) return html`<p class="hint">This is the first prompt on record here: there is nothing to compare it with.</p>`;
    return html`<h2>Since the run before</h2>
      <p>${diff.prefixKept ? "The cacheable beginning is unchanged." : `The cacheable beginning changed in ${short(diff.brokenAt) || "its end"}, at byte ${diff.brokenAtByte} of ${diff.prefixBytes}.`}</p>
      <ul class="changes">
        ${diff.changes.map((each: Json) => this.change(each))}
      </ul>`;
  }

  private change(each: Json) {
    return html`<li class=${each.kind}>
      <details @toggle=${() => void this.compare()}>
        <summary><b>${each.kind}</b> <span title=${each.id}>${short(each.id)}</span> <span class="hint">${each.beforeChars} → ${each.afterChars} characters, ${each.stable ? "above" : "below"} the boundary</span></summary>
        ${this.earlier ? diffView(short(each.id), lines(this.earlier.texts[each.id] ?? "", this.found.texts?.[each.id] ?? "")) : html`<p class="hint">Loading…</p>`}
      </details>
    </li>`;
  }

  /** Fetches the run before, to show its words beside ours. */
  private async compare(): Promise<void> {
    const runId = this.found.diff?.previousRunId;
    if (!runId || this.earlier?.runId === runId) return;
    await this.attempt(async () => {
      const { texts } = await gateway.call("prompt.report", { runId, includeText: true });
      this.earlier = { runId, texts };
    });
  }

  private section(line: Json, text: string, cached: boolean) {
    return html`<details class="section" id="section-${line.id}">
      <summary><span class="swatch label-${line.label}"></span><b title=${line.id}>${short(line.id)}</b> <span class="hint">${line.source} · ${line.side === "stable" ? (cached ? "cached" : "cacheable") : "new each time"}</span><span class="number">${tokens(line.tokens)} tokens · ${(line.share * 100).toFixed(1)} %</span></summary>
      <pre tabindex="0">${visible(text)}</pre>
    </details>`;
  }
}
customElements.define("oc-prompt", Prompt);

/** A section's name; files by theirs, without the way to them. */
function short(id: string): string {
  return visible(id.startsWith("file:") ? `file ${id.split("/").pop()}` : id);
}

function show(event: Event, id: string): void {
  event.preventDefault();
  const section = document.getElementById(`section-${id}`) as HTMLDetailsElement | null;
  if (section) {
    section.open = true;
    section.scrollIntoView({ behavior: "smooth", block: "start" });
  }
}
