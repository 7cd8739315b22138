// One tool call: what was asked, what came of it.

import { html, nothing } from "lit";
import { changes } from "./diff.js";
import { diffView } from "./diff-view.js";
import { Element } from "./element.js";
import type { Json } from "./gateway.js";
import { steps } from "./plan.js";
import { address } from "./place.js";
import { oneLine, visible } from "./text.js";

const SHOWN = 20_000;

class ToolCard extends Element {
  static properties = { name: {}, args: { attribute: false }, output: {}, state: {}, opened: { state: true } };
  declare name: string;
  declare args: Json;
  declare output: string;
  declare state: "running" | "done" | "failed";
  declare opened: boolean | undefined;

  render() {
    const plan = this.name === "update_plan" ? steps(this.args) : undefined;
    const edits = changes(this.name, this.args);
    const open = this.opened ?? (this.state === "running" || edits.length > 0);
    const child = this.name === "sessions_spawn" ? /"childSessionKey":\s*"(agent:[^"\\]+)"/.exec(this.output)?.[1] : undefined;
    const mark = { running: "⋯", done: "✓", failed: "✗" }[this.state];
    return html`<details class="tool ${this.state}" .open=${open}>
      <summary @click=${(event: Event) => this.toggle(event, !open)}>
        <span class="mark" aria-label=${this.state}>${mark}</span><b>${oneLine(visible(String(this.name)), 60)}</b> <span class="brief">${plan ? `${plan.filter((each) => each.status === "completed").length} of ${plan.length} done` : brief(this.args)}</span>
      </summary>
      ${open
        ? html`${plan ? html`<ol class="steps">${plan.map((each) => html`<li class=${each.status}>${visible(each.step)}</li>`)}</ol>` : edits.length ? edits.map((each) => diffView(each.path, each.lines)) : html`<pre class="args" tabindex="0">${written(this.args)}</pre>`}
            ${child ? html`<p class="child"><a href=${address("chat", child)}>Open the sub-agent's conversation</a></p>` : nothing}
            ${this.output && !plan ? html`<pre class="output" tabindex="0" aria-label="output">${visible(unwrapped(this.output).slice(-SHOWN))}</pre>` : nothing}`
        : nothing}
    </details>`;
  }

  private toggle(event: Event, opened: boolean): void {
    event.preventDefault();
    this.opened = opened;
  }
}
customElements.define("oc-tool", ToolCard);

const ENVELOPE = /(?:SECURITY NOTICE:[^\n]*\n(?:- [^\n]*\n)*\s*)?<<<EXTERNAL_UNTRUSTED_CONTENT[^>]*>>>\n([\s\S]*?)\n?<<<END_EXTERNAL_UNTRUSTED_CONTENT[^>]*>>>/g;

/** What a tool gave, without the words around text from elsewhere that are meant for the model. */
function unwrapped(output: string): string {
  return output.replace(ENVELOPE, (_, inside: string) => inside.replace(/^(?:[A-Z][a-z]+: [^\n]*\n)*---\n/, ""));
}

function brief(args: Json): string {
  const first = args?.command ?? args?.path ?? args?.pattern ?? args?.query ?? args?.url ?? "";
  return oneLine(String(first), 90);
}

function written(args: Json): string {
  if (typeof args?.command === "string" && Object.keys(args).length === 1) return visible(args.command);
  return visible(JSON.stringify(args, null, 2) ?? "");
}
