// A difference, drawn: what goes, what comes, what stays.

import { html, type TemplateResult } from "lit";
import type { Line } from "./diff.js";
import { visible } from "./text.js";

const SHOWN = 600;
/** Unchanged lines that stay on each side of a change. */
const AROUND = 3;
const WORD: Record<string, string> = { "+": "added", "-": "removed", " ": "", "…": "gap" };

export function diffView(name: string, all: Line[]): TemplateResult {
  const found = near(all);
  return html`<div class="diff" role="group" aria-label="changes to ${name}">
    <div class="path">${visible(name)}</div>
    <pre tabindex="0">${found.slice(0, SHOWN).map(({ kind, text }) => html`<span class=${WORD[kind]!}>${kind}${visible(text)}
</span>`)}${found.length > SHOWN ? html`<span class="gap">… ${found.length - SHOWN} more lines</span>` : ""}</pre>
  </div>`;
}

/** Only what is near a change; the rest is said to be there. */
function near(all: Line[]): { kind: string; text: string }[] {
  const keep = new Set<number>();
  all.forEach((line, at) => {
    if (line.kind !== " ") for (let i = at - AROUND; i <= at + AROUND; i++) keep.add(i);
  });
  const found: { kind: string; text: string }[] = [];
  let left = 0;
  const gap = () => {
    if (left) found.push({ kind: "…", text: ` ${left} unchanged line${left > 1 ? "s" : ""}` });
    left = 0;
  };
  all.forEach((line, at) => {
    if (!keep.has(at)) left++;
    else {
      gap();
      found.push(line);
    }
  });
  gap();
  return found;
}

/** Lines as `diff -u` writes them; what names a file or a place is said between the lines. */
export function unified(texts: string[]): Line[] {
  const found: Line[] = [];
  texts.forEach((text, at) => {
    if (text.startsWith("--- ") && texts[at + 1]?.startsWith("+++ ")) return;
    if (text.startsWith("+++ ") && texts[at - 1]?.startsWith("--- ")) found.push({ kind: "…", text: ` ${text.slice(4)}` });
    else if (text.startsWith("@@")) found.push({ kind: "…", text: ` line ${/\+(\d+)/.exec(text)?.[1] ?? ""}` });
    else if (text.startsWith("+") || text.startsWith("-")) found.push({ kind: text[0] as "+" | "-", text: text.slice(1) });
    else found.push({ kind: " ", text: text.replace(/^ /, "") });
  });
  return found;
}
