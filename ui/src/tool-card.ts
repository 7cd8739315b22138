// One tool call: what was asked, what came of it.

import { html, nothing } from "lit";
import { changes } from "./diff.js";
import { Element } from "./element.js";
import type { Json } from "./gateway.js";
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
    const edits = changes(this.name, this.args);
    const open = this.opened ?? (this.state === "running" || edits.length > 0);
    const mark = { running: "⋯", done: "✓", failed: "✗" }[this.state];
    return html`<details class="tool ${this.state}" .open=${open}>
      <summary @click=${(event: Event) => this.toggle(event, !open)}>
        <span class="mark" aria-label=${this.state}>${mark}</span><b>${this.name}</b> <span class="brief">${brief(this.args)}</span>
      </summary>
      ${open
        ? html`${edits.length ? edits.map(diff) : html`<pre class="args" tabindex="0">${written(this.args)}</pre>`}
            ${this.output ? html`<pre class="output" tabindex="0" aria-label="output">${visible(this.output.slice(-SHOWN))}</pre>` : nothing}`
        : nothing}
    </details>`;
  }

  private toggle(event: Event, opened: boolean): void {
    event.preventDefault();
    this.opened = opened;
  }
}
customElements.define("oc-tool", ToolCard);

function diff(change: { path: string; lines: { kind: string; text: string }[] }) {
  const word = { "+": "added", "-": "removed", " ": "" } as Record<string, string>;
  return html`<div class="diff" role="group" aria-label="changes to ${change.path}">
    <div class="path">${visible(change.path)}</div>
    <pre tabindex="0">${change.lines.slice(0, 500).map((line) => html`<span class=${word[line.kind]!}>${line.kind}${visible(line.text)}
</span>`)}</pre>
  </div>`;
}

function brief(args: Json): string {
  const first = args?.command ?? args?.path ?? args?.pattern ?? args?.query ?? args?.url ?? "";
  return oneLine(String(first), 90);
}

function written(args: Json): string {
  if (typeof args?.command === "string" && Object.keys(args).length === 1) return visible(args.command);
  return visible(JSON.stringify(args, null, 2) ?? "");
}
