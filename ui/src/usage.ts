// What was spent: by day as bars, by model and by conversation as tables.

import { html, nothing, svg } from "lit";
import { gateway, type Json } from "./gateway.js";
import { Page } from "./page.js";
import { address } from "./place.js";
import { dollars, oneLine, tokens } from "./text.js";

const RANGES = [
  ["7d", "7 days"],
  ["30d", "30 days"],
  ["90d", "90 days"],
  ["1y", "a year"],
] as const;
const PARTS = [
  ["input", "read by the model"],
  ["cacheWrite", "put into the cache"],
  ["cacheRead", "from the cache"],
  ["output", "written by the model"],
] as const;
const WIDE = 800;
const HIGH = 200;

class Usage extends Page {
  static properties = { range: { state: true }, what: { state: true }, found: { state: true } };
  declare range: string;
  declare what: "cost" | "tokens";
  declare found: Json;
  private names = new Map<string, string>();

  constructor() {
    super();
    this.range = "30d";
    this.what = "cost";
  }

  protected async load(): Promise<void> {
    const timeZone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    const [found, { sessions }] = await Promise.all([
      gateway.call("sessions.usage", { range: this.range, mode: "specific", timeZone, limit: 50 }),
      gateway.call("sessions.list", { limit: 1000 }),
    ]);
    this.names = new Map(sessions.map((row: Json) => [row.key, row.displayName]));
    this.found = found;
  }

  private value(part: Json, name: string): number {
    return this.what === "cost" ? part[`${name}Cost`] : part[name];
  }

  private shown(amount: number): string {
    return this.what === "cost" ? dollars(amount) : tokens(amount);
  }

  render() {
    const choices = html`<select aria-label="Time" @change=${(event: Event) => ((this.range = (event.target as HTMLSelectElement).value), void this.attempt(() => this.load()))}>
        ${RANGES.map(([id, label]) => html`<option value=${id} ?selected=${id === this.range}>${label}</option>`)}
      </select>
      <select aria-label="What is counted" @change=${(event: Event) => (this.what = (event.target as HTMLSelectElement).value as "cost" | "tokens")}>
        <option value="cost" ?selected=${this.what === "cost"}>cost</option>
        <option value="tokens" ?selected=${this.what === "tokens"}>tokens</option>
      </select>`;
    if (!this.found) return this.frame("Usage", this.problem ? nothing : html`<p class="empty">Loading…</p>`, choices);
    const { totals, aggregates } = this.found;
    const days = filled(this.found.startDate, this.found.endDate, aggregates.daily);
    const models = aggregates.byModel.toSorted((one: Json, other: Json) => other.totals.totalCost - one.totals.totalCost);
    const sessions = this.found.sessions.filter((each: Json) => each.usage);
    return this.frame(
      "Usage",
      html`<p class="figures"><b>${cost(totals)}</b> <span>${tokens(totals.totalTokens)} tokens</span> <span>${percent(totals.cacheRead, totals.input + totals.cacheRead + totals.cacheWrite)} of what was read came from a cache</span></p>
        ${totals.missingCostEntries ? html`<p class="hint">${totals.missingCostEntries} calls have no price: their model's prices are not known. Set models.providers.….models[].cost to count them.</p>` : nothing}
        ${this.chart(days)}
        <h2>Models</h2>
        ${this.table("Model", models.map((each: Json) => [oneLine(`${each.provider}/${each.model}`), each.count, each.totals]))}
        <h2>Conversations</h2>
        ${this.table("Conversation", sessions.map((each: Json) => [html`<a href=${address("chat", each.key)}>${oneLine(this.names.get(each.key) ?? each.key, 80)}</a>`, null, each.usage]))}`,
      choices,
    );
  }

  private chart(days: Json[]) {
    const sums = days.map((day) => PARTS.reduce((sum, [name]) => sum + this.value(day, name), 0));
    const most = Math.max(...sums, 0);
    if (!most) return html`<p class="empty">Nothing was ${this.what === "cost" ? "spent" : "used"} in this time.</p>`;
    const step = WIDE / days.length;
    const bars = days.map((day, at) => {
      let top = HIGH;
      const title = `${day.date}: ${this.shown(sums[at]!)}`;
      const parts = PARTS.map(([name]) => {
        const height = (this.value(day, name) / most) * (HIGH - 20);
        top -= height;
        return svg`<rect class="part-${name}" x=${(at * step + step * 0.1).toFixed(2)} y=${top.toFixed(2)} width=${(step * 0.8).toFixed(2)} height=${height.toFixed(2)}></rect>`;
      });
      return svg`<g class="day"><rect class="ground" x=${(at * step).toFixed(2)} y="0" width=${step.toFixed(2)} height=${HIGH}></rect>${parts}<title>${title}</title></g>`;
    });
    const marks = [0, Math.floor((days.length - 1) / 2), days.length - 1];
    return html`<figure class="chart">
      <svg viewBox="0 0 ${WIDE} ${HIGH + 22}" role="img" aria-label="${this.what === "cost" ? "Cost" : "Tokens"} by day, at most ${this.shown(most)}">
        <line class="axis" x1="0" x2=${WIDE} y1=${HIGH} y2=${HIGH}></line>
        <line class="grid" x1="0" x2=${WIDE} y1="20" y2="20"></line>
        <text x="0" y="14">${this.shown(most)}</text>
        ${bars}
        ${marks.map((at, place) => svg`<text x=${place === 0 ? 0 : place === 1 ? (at + 0.5) * step : WIDE} y=${HIGH + 18} text-anchor=${["start", "middle", "end"][place]!}>${days[at]!.date}</text>`)}
      </svg>
      <figcaption class="legend">${PARTS.map(([name, label]) => html`<span><i class="swatch part-${name}"></i>${label}</span>`)}</figcaption>
    </figure>`;
  }

  private table(title: string, rows: [unknown, number | null, Json][]) {
    if (!rows.length) return html`<p class="hint">None in this time.</p>`;
    const counted = rows.some(([, count]) => count !== null);
    return html`<div class="scroller"><table>
      <thead><tr><th>${title}</th>${counted ? html`<th class="number">Calls</th>` : nothing}<th class="number">Read</th><th class="number">From cache</th><th class="number">Written</th><th class="number">Cost</th></tr></thead>
      <tbody>${rows.map(([name, count, sum]) => html`<tr><td>${name}</td>${counted ? html`<td class="number">${count}</td>` : nothing}<td class="number">${tokens(sum.input + sum.cacheWrite)}</td><td class="number">${tokens(sum.cacheRead)}</td><td class="number">${tokens(sum.output)}</td><td class="number">${cost(sum)}</td></tr>`)}</tbody>
    </table></div>`;
  }
}
customElements.define("oc-usage", Usage);

/** What was spent, as far as prices are known: unknown is not free. */
function cost(sum: Json): string {
  if (!sum.missingCostEntries) return dollars(sum.totalCost);
  return sum.totalCost ? `${dollars(sum.totalCost)} and more` : "unknown";
}

/** Every day from the first to the last; on most nothing happened. */
function filled(first: string, last: string, daily: Json[]): Json[] {
  const known = new Map(daily.map((day) => [day.date, day]));
  const nothingSpent = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, inputCost: 0, outputCost: 0, cacheReadCost: 0, cacheWriteCost: 0 };
  const days: Json[] = [];
  for (let at = Date.parse(`${first}T00:00:00Z`); at <= Date.parse(`${last}T00:00:00Z`); at += 86_400_000) {
    const date = new Date(at).toISOString().slice(0, 10);
    days.push(known.get(date) ?? { date, ...nothingSpent });
  }
  return days;
}

function percent(part: number, whole: number): string {
  return whole ? `${Math.round((part / whole) * 100)} %` : "0 %";
}
