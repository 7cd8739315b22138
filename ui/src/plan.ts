// The plan of a conversation: its steps, and how far it has come.

import { html, nothing, type TemplateResult } from "lit";
import type { Json } from "./gateway.js";
import { visible } from "./text.js";

export interface Step {
  step: string;
  status: string;
}

const MARK: Record<string, string> = { completed: "✓", in_progress: "▸", pending: "○" };
const WORD: Record<string, string> = { completed: "done", in_progress: "in work", pending: "to do" };

/** The steps of an `update_plan` call, or undefined when it has none. */
export function steps(args: Json): Step[] | undefined {
  if (!Array.isArray(args?.plan)) return undefined;
  const found = args.plan.filter((each: Json) => typeof each?.step === "string" && each.status in MARK);
  return found.length ? found : undefined;
}

export function planCard(plan: Step[], open: boolean, toggle: () => void): TemplateResult {
  const done = plan.filter((each) => each.status === "completed").length;
  const now = plan.find((each) => each.status === "in_progress");
  return html`<section class="plan" aria-label="Plan">
    <button type="button" class="quiet" aria-expanded=${open} @click=${toggle}>
      <b>Plan</b> <span>${done} of ${plan.length} done</span>
      ${!open && now ? html`<span class="now">${visible(now.step)}</span>` : nothing}
    </button>
    <progress max=${plan.length} value=${done} aria-label="${done} of ${plan.length} steps done"></progress>
    ${open
      ? html`<ol>${plan.map((each) => html`<li class=${each.status}><span aria-hidden="true">${MARK[each.status]}</span> <span class="away">${WORD[each.status]}:</span> ${visible(each.step)}</li>`)}</ol>`
      : nothing}
  </section>`;
}
