// The form of a job, and what is written in it as the gateway wants to hear it.

import { html, nothing, type TemplateResult } from "lit";
import { gateway, type Json } from "./gateway.js";

const UNITS = [
  [60_000, "minutes"],
  [3_600_000, "hours"],
  [86_400_000, "days"],
] as const;

export function jobForm(job: Json, save: (event: SubmitEvent) => void, cancel: () => void): TemplateResult {
  const schedule = job.schedule ?? { kind: "" };
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
      <label class="choice"><input type="radio" name="kind" value="words" ?checked=${!job.schedule} /> in words</label>
      <label class="wide">When <input name="words" placeholder="every morning at 8, tomorrow 8am, weekdays at 7:30" @input=${meant} @focus=${picked} /><small role="status"></small></label>
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

/** Chooses the kind of time that somebody begins to write. */
function picked(event: Event): void {
  (event.target as HTMLElement).closest("fieldset")!.querySelector<HTMLInputElement>('[value="words"]')!.checked = true;
}

/** Shows what the words mean before they are saved. */
async function meant(event: Event): Promise<void> {
  const input = event.target as HTMLInputElement;
  const shown = input.parentElement!.querySelector("small")!;
  const text = input.value.trim();
  const told = text ? await parsed(text, String(new FormData(input.form!).get("tz") ?? "")).then((found) => `Means: ${found.meaning}`, (error: Error) => error.message) : "";
  if (input.value.trim() === text) shown.textContent = told;
}

function parsed(text: string, tz: string): Promise<Json> {
  return gateway.call("cron.parse", { text, tz: tz.trim() || Intl.DateTimeFormat().resolvedOptions().timeZone });
}

/** What the form says. */
export async function written(form: FormData): Promise<Json> {
  const text = (name: string) => String(form.get(name) ?? "").trim();
  const main = text("where") === "main";
  return {
    name: text("name"),
    schedule: text("kind") === "words" ? (await parsed(text("words"), text("tz"))).schedule : schedule(text),
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
