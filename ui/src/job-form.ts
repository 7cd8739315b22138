// The form of a job, and what is written in it as the gateway wants to hear it.

import { html, nothing, type TemplateResult } from "lit";
import type { Json } from "./gateway.js";

const UNITS = [
  [60_000, "minutes"],
  [3_600_000, "hours"],
  [86_400_000, "days"],
] as const;

export function jobForm(job: Json, save: (event: SubmitEvent) => void, cancel: () => void): TemplateResult {
  const schedule = job.schedule ?? { kind: "cron" };
  const every = schedule.everyMs ?? 3_600_000;
  const [unit] = UNITS.findLast(([size]) => every % size === 0) ?? UNITS[0];
  const own = job.payload ? job.payload.kind === "agentTurn" : true;
  const asked = job.payload?.message ?? job.payload?.text ?? "";
  const zone = schedule.tz ?? Intl.DateTimeFormat().resolvedOptions().timeZone;
  return html`<form class="job" @submit=${save} aria-label=${job.id ? "Change a job" : "New job"}>
    <label>Name <input name="name" required maxlength="200" .value=${job.name ?? ""} /></label>
    <label>What should it do? <textarea name="asked" required rows="3" .value=${asked}></textarea></label>
    <label>Where?
      <select name="where">
        <option value="own" ?selected=${own}>in a conversation of its own</option>
        <option value="main" ?selected=${!own}>as a reminder in the main conversation</option>
      </select>
    </label>
    <fieldset>
      <legend>When?</legend>
      <label class="choice"><input type="radio" name="kind" value="cron" ?checked=${schedule.kind === "cron"} /> by the calendar</label>
      <label>Cron expression <input name="expr" placeholder="30 7 * * 1-5" .value=${schedule.expr ?? "0 8 * * *"} /></label>
      <label>Time zone <input name="tz" .value=${zone} /></label>
      <label class="choice"><input type="radio" name="kind" value="every" ?checked=${schedule.kind === "every"} /> again and again</label>
      <label>Every <input name="count" type="number" min="1" .value=${String(every / unit)} /></label>
      <label>Unit <select name="unit">${UNITS.map(([size, label]) => html`<option value=${size} ?selected=${size === unit}>${label}</option>`)}</select></label>
      <label class="choice"><input type="radio" name="kind" value="at" ?checked=${schedule.kind === "at"} /> once</label>
      <label>At <input name="at" type="datetime-local" .value=${schedule.at ? local(schedule.at) : ""} /></label>
    </fieldset>
    ${schedule.kind && !["cron", "every", "at"].includes(schedule.kind) ? html`<p class="hint">Its present schedule (${schedule.kind}) cannot be shown here and is replaced.</p>` : nothing}
    <div class="buttons"><button class="primary">Save</button><button type="button" @click=${cancel}>Cancel</button></div>
  </form>`;
}

/** What the form says. */
export function written(form: FormData): Json {
  const text = (name: string) => String(form.get(name) ?? "").trim();
  const main = text("where") === "main";
  return {
    name: text("name"),
    schedule: schedule(text),
    sessionTarget: main ? "main" : "isolated",
    wakeMode: "now",
    payload: main ? { kind: "systemEvent", text: text("asked") } : { kind: "agentTurn", message: text("asked") },
  };
}

function schedule(text: (name: string) => string): Json {
  if (text("kind") === "every") return { kind: "every", everyMs: Number(text("count")) * Number(text("unit")) };
  if (text("kind") === "at") {
    const at = new Date(text("at"));
    if (Number.isNaN(at.getTime())) throw new Error("Say when: a day and a time.");
    return { kind: "at", at: at.toISOString() };
  }
  return { kind: "cron", expr: text("expr"), ...(text("tz") ? { tz: text("tz") } : {}) };
}

/** A moment as a date field wants it. */
function local(at: string): string {
  const moment = new Date(at);
  return new Date(moment.getTime() - moment.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
