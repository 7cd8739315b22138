// Messages, drawn.

import { html, nothing, type TemplateResult } from "lit";
import type { Json } from "./gateway.js";
import "./image.js";
import { copy } from "./markdown.js";
import { textOf, type Attached, type Pending, type Row, type Said, type Talk } from "./talk.js";
import { clock, oneLine } from "./text.js";
import "./tool-card.js";

const FILE = /^\[attached: (.+) \(([^()]*)\)\]$/;
const IMAGE = /^\[image (image\/[a-z+]+)\]$/;

export interface Acts {
  /** Puts a message up for editing; one that is on record is taken back with all that follows it. */
  edit(text: string, id: string): void;
  /** Takes a message that waits out of the queue. */
  drop(each: Pending): void;
}

export function rowView(talk: Talk, row: Row, acts: Acts): TemplateResult | typeof nothing {
  if (row.role === "toolResult") return nothing;
  return row.role === "user" ? recorded(talk, row, acts) : assistant(talk, row);
}

function recorded(talk: Talk, row: Row, acts: Acts): TemplateResult {
  const { message } = row;
  const blocks: Json[] = Array.isArray(message.content) ? message.content : [{ type: "text", text: message.content }];
  const images = blocks.filter((block) => IMAGE.test(block.text));
  const text = blocks.filter((block) => !IMAGE.test(block.text)).map((block) => block.text).join("\n");
  const pictures = images.map((_, place) => html`<oc-image .sessionKey=${talk.key} .messageId=${row.id} .place=${place}></oc-image>`);
  const { words, told } = apart(text);
  return html`<article class="user" aria-label="You" data-id=${row.id}>
    <div class="bubble">${pictures} ${words ? html`<p>${words}</p>` : nothing} ${told.map((line) => chip(FILE.exec(line)![1]!.split("/").pop()!))}</div>
    <footer>
      <time>${clock(message.timestamp)}</time>
      <button type="button" class="quiet" @click=${(event: Event) => void copy(event.currentTarget as HTMLElement, words)}>Copy</button>
      <button type="button" class="quiet" @click=${() => acts.edit(words, row.id)}>Edit and send again</button>
    </footer>
    ${notices(message)}
  </article>`;
}

/** A message's words, and the lines that tell of the files that came with it. */
export function apart(text: string): { words: string; told: string[] } {
  const lines = text.split("\n");
  const told: string[] = [];
  while (lines.length && FILE.test(lines.at(-1)!)) told.unshift(lines.pop()!);
  return { words: lines.join("\n").trim(), told };
}

function chip(name: string): TemplateResult {
  return html`<span class="chip"><span aria-hidden="true">📎</span> ${oneLine(name, 60)}</span>`;
}

export function waiting(each: Pending, busy: boolean, acts: Acts): TemplateResult {
  const note = busy ? "waiting for its turn" : "sending";
  return html`<article class="user waiting" aria-label="You">
    <div class="bubble">${each.attached.map(attached)} ${each.text ? html`<p>${each.text}</p>` : nothing}</div>
    <footer>
      <span class=${each.problem ? "problem" : ""}>${each.problem || note}</span>
      ${busy && !each.problem ? html`<button type="button" class="quiet" @click=${() => acts.drop(each)}>Take back</button>` : nothing}
      ${each.problem ? html`<button type="button" class="quiet" @click=${() => acts.edit(each.text, "")}>Write again</button>` : nothing}
    </footer>
  </article>`;
}

function attached(each: Attached): TemplateResult {
  return each.kind.startsWith("image/") ? html`<img src=${each.content} alt=${each.name} />` : chip(each.name);
}

function assistant(talk: Talk, row: Row): TemplateResult {
  const { message } = row;
  const blocks = Array.isArray(message.content) ? message.content : [];
  const text = textOf(message);
  return html`<article class="assistant" aria-label="Assistant" data-id=${row.id}>
    ${blocks.map((block: Json) => part(talk, block))}
    ${message.errorMessage ? html`<p class="problem">${message.errorMessage}</p>` : nothing}
    ${message.stopReason === "aborted" ? html`<p class="hint">stopped</p>` : nothing} ${notices(message)}
    ${text.trim()
      ? html`<footer><time>${clock(message.timestamp)}</time> <button type="button" class="quiet" @click=${(event: Event) => void copy(event.currentTarget as HTMLElement, text)}>Copy</button></footer>`
      : nothing}
  </article>`;
}

function part(talk: Talk, block: Json): TemplateResult | typeof nothing {
  if (block.type === "text") return block.text.trim() ? html`<oc-markdown class="md" .text=${block.text}></oc-markdown>` : nothing;
  if (block.type === "thinking") return thinking(block.thinking ?? block.text ?? "");
  if (block.type !== "toolCall") return nothing;
  const live = talk.tools.get(block.id);
  const result = talk.results.get(block.id)?.message;
  const state = result ? (result.isError ? "failed" : "done") : live ? (live.done ? (live.failed ? "failed" : "done") : "running") : talk.live ? "running" : "done";
  return html`<oc-tool .name=${block.name} .args=${block.arguments} .output=${result ? textOf(result) : (live?.output ?? "")} .state=${state}></oc-tool>`;
}

export function streaming(talk: Talk): TemplateResult {
  const live = talk.live!;
  return html`<article class="assistant live" aria-label="Assistant" aria-busy="true">
    ${live.thinking ? thinking(live.thinking) : nothing}
    ${live.text ? html`<oc-markdown class="md" .text=${live.text}></oc-markdown>` : nothing}
    ${live.note ? html`<p class="hint">${live.note}</p>` : nothing}
    <p class="working" aria-label="working"><span></span><span></span><span></span></p>
  </article>`;
}

export function saidView(each: Said): TemplateResult {
  return html`<article class="said" aria-label="The gateway">
    <p class="hint">${each.asked}</p>
    <oc-markdown class="md" .text=${each.text}></oc-markdown>
  </article>`;
}

/** What the gateway says beside a message: who answered instead, what it was interrupted by. */
function notices(message: Json): TemplateResult[] {
  return (message.__openclaw?.notices ?? []).map((text: string) => html`<p class="notice" role="note">${text}</p>`);
}

function thinking(text: string): TemplateResult | typeof nothing {
  return text.trim() ? html`<details class="thinking"><summary>Thinking</summary><p>${text}</p></details>` : nothing;
}
