// What the assistant does by itself: jobs, their runs, heartbeats.

import { html, nothing } from "lit";
import { repeat } from "lit/directives/repeat.js";
import { gateway, type Json } from "./gateway.js";
import { jobForm, written } from "./job-form.js";
import { ask, Page } from "./page.js";
import { address } from "./place.js";
import { ago, dollars, oneLine, whenText } from "./text.js";

const RUNS = 20;

class Cron extends Page {
  static properties = { jobs: { state: true }, runs: { state: true }, status: { state: true }, beats: { state: true }, form: { state: true } };
  declare jobs: Json[] | undefined;
  declare runs: Json[];
  declare status: Json;
  declare beats: Json;
  /** The job that is made or changed; one without an id is new. */
  declare form: Json;

  constructor() {
    super();
    this.runs = [];
  }

  connectedCallback(): void {
    super.connectedCallback();
    for (const name of ["cron", "heartbeat"]) this.hear(name, () => void this.refresh());
  }

  protected async load(): Promise<void> {
    [{ jobs: this.jobs }, { entries: this.runs }, this.status, this.beats] = await Promise.all([
      gateway.call("cron.list", { includeDisabled: true, limit: 200 }),
      gateway.call("cron.runs", { scope: "all", limit: RUNS }),
      gateway.call("cron.status"),
      gateway.call("heartbeats.status"),
    ]);
  }

  private act(work: () => Promise<unknown>, told = ""): Promise<void> {
    return this.attempt(async () => {
      await work();
      await this.load();
    }, told);
  }

  private async save(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    const { id } = this.form;
    const given = new FormData(event.target as HTMLFormElement);
    await this.act(async () => {
      const job = await written(given);
      if (id) await gateway.call("cron.update", { id, patch: job, expectedConfigRevision: this.form.configRevision });
      else await gateway.call("cron.add", job);
      this.form = undefined;
    }, `${oneLine(String(given.get("name")), 60)} is saved.`);
  }

  private async discard(job: Json): Promise<void> {
    if ((await ask(`Delete “${oneLine(job.name, 60)}”? It will not run again.`, { yes: "Delete" })) === null) return;
    await this.act(() => gateway.call("cron.remove", { id: job.id }), "Deleted.");
  }

  private async wake(): Promise<void> {
    const text = await ask("What should it look at now?", { input: true, value: "Look whether anything needs attention.", yes: "Look now" });
    if (text?.trim()) await this.act(() => gateway.call("wake", { mode: "now", text: text.trim() }), "It looks now.");
  }

  render() {
    const { jobs, status } = this;
    if (!jobs) return this.frame("Schedule", this.problem ? nothing : html`<p class="empty">Loading…</p>`);
    return this.frame(
      "Schedule",
      html`${status.enabled ? nothing : html`<p class="problem">Jobs do not run now: cron.enabled is off, or the gateway is in safe mode.</p>`}
        ${this.form ? jobForm(this.form, (event) => void this.save(event), () => (this.form = undefined)) : nothing}
        ${jobs.length
          ? html`<div class="scroller"><table>
              <thead><tr><th>Job</th><th>When</th><th>Next</th><th>Last</th><th><span class="away">Actions</span></th></tr></thead>
              <tbody>${repeat(jobs, (job) => job.id, (job) => this.row(job))}</tbody>
            </table></div>`
          : html`<p class="empty">Nothing is planned. Make a job here, or ask the assistant to remind you of something.</p>`}
        ${this.heartbeats()}
        <h2>Runs</h2>
        ${this.runs.length
          ? html`<div class="scroller"><table>
              <thead><tr><th>When</th><th>Job</th><th>Outcome</th><th class="number">Took</th><th class="number">Cost</th></tr></thead>
              <tbody>${this.runs.map(run)}</tbody>
            </table></div>`
          : html`<p class="hint">No job has run yet.</p>`}`,
      html`<button type="button" class="primary" @click=${() => (this.form = {})}>New job</button>`,
    );
  }

  private row(job: Json) {
    const act = (label: string, work: () => unknown) => html`<button type="button" class="quiet" @click=${(event: Event) => ((event.currentTarget as HTMLElement).closest("details")!.open = false, void work())}>${label}</button>`;
    const asked = job.payload.kind === "systemEvent" ? job.payload.text : job.payload.message;
    return html`<tr data-job=${job.id} class=${job.enabled ? "" : "off"}>
      <td><b>${oneLine(job.name, 80)}</b><small>${oneLine(asked ?? "", 160)}</small></td>
      <td>${whenText(job.schedule)}<small>${job.sessionTarget === "main" ? "in the main conversation" : "in a conversation of its own"}</small></td>
      <td class="when">${job.enabled ? moment(job.nextRunAtMs) : "switched off"}</td>
      <td>${job.state?.runningAtMs ? html`<span class="dot"></span> now` : outcome(job.lastRunStatus)}${job.lastRunAtMs ? html`<small>${ago(job.lastRunAtMs)}</small>` : nothing}${job.lastRunError ? html`<small class="problem">${oneLine(job.lastRunError, 160)}</small>` : nothing}</td>
      <td><details class="actions"><summary aria-label="Actions for ${oneLine(job.name, 40)}">⋯</summary><div>
        ${act("Run now", () => this.act(() => gateway.call("cron.run", { id: job.id, mode: "force" }), `${oneLine(job.name, 60)} runs now.`))}
        ${act("Change", () => (this.form = job))}
        ${act(job.enabled ? "Switch off" : "Switch on", () => this.act(() => gateway.call("cron.update", { id: job.id, patch: { enabled: !job.enabled } })))}
        ${act("Delete", () => this.discard(job))}
      </div></details></td>
    </tr>`;
  }

  private heartbeats() {
    const { enabled, last, agents } = this.beats;
    return html`<h2>Heartbeat</h2>
      <p>${agents.length
        ? agents.map((each: Json) => html`<span>${each.agentId} looks every ${each.every}${each.nextAtMs ? html`, next ${moment(each.nextAtMs)}` : nothing}. </span>`)
        : html`No agent looks by itself. <a href=${address("config")}>Settings</a>, agents, defaults, heartbeat: “every” says how often, such as 30m.`}
        ${enabled ? nothing : html`<b>Heartbeats are switched off until the gateway starts again.</b>`}</p>
      ${last ? html`<p class="hint">Last: ${ago(last.ts)}, ${last.status}${last.reason ? ` (${last.reason})` : ""}${last.preview ? html`: ${oneLine(last.preview, 200)}` : nothing}</p>` : nothing}
      <div class="buttons">
        <button type="button" @click=${() => void this.wake()}>Look now</button>
        <button type="button" @click=${() => void this.act(() => gateway.call("set-heartbeats", { enabled: !enabled }))}>${enabled ? "Switch heartbeats off" : "Switch heartbeats on"}</button>
      </div>`;
  }
}
customElements.define("oc-cron", Cron);

function outcome(status: string | undefined) {
  return status === "ok" ? html`<span class="good">done</span>` : status === "error" ? html`<span class="problem">failed</span>` : (status ?? "never");
}

function moment(at: number | undefined): string {
  return at ? new Date(at).toLocaleString([], { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" }) : "";
}

function run(each: Json) {
  return html`<tr>
    <td class="when">${moment(each.runAtMs)}</td>
    <td>${oneLine(each.jobName ?? "", 80)}</td>
    <td>${outcome(each.status)}${each.error ?? each.summary ? html`<small>${oneLine(each.error ?? each.summary, 240)}</small>` : nothing}</td>
    <td class="number">${each.durationMs == null ? "" : `${(each.durationMs / 1000).toFixed(1)} s`}</td>
    <td class="number">${dollars(each.costUsd)}</td>
  </tr>`;
}
