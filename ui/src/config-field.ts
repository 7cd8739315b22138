// One setting of the form: the control that fits its kind.

import { html, nothing } from "lit";
import type { Json } from "./gateway.js";

/** What the gateway shows of a secret that is there. */
const HIDDEN = "__OPENCLAW_REDACTED__";
const SECRET = /token|password|secret|apikey/i;

/** The control of a setting; `put` is told of a new value, and of nothing when it is emptied. */
export function control(raw: Json, name: string, id: string, value: Json, put: (value: Json) => void) {
  const node = simple(raw, value);
  const typed = (event: Event, read: (text: string) => Json) => {
    const input = event.target as HTMLInputElement;
    try {
      input.setCustomValidity("");
      put(input.value === "" ? undefined : read(input.value));
    } catch {
      input.setCustomValidity("This is not JSON.");
      input.reportValidity();
    }
  };
  const choices: Json[] | undefined = node.enum ?? (node.type === "boolean" ? [true, false] : undefined);
  if (choices) {
    return html`<select id=${id} @change=${(event: Event) => typed(event, (text) => JSON.parse(text))}>
      <option value="" ?selected=${value == null}>default</option>
      ${choices.map((each) => html`<option value=${JSON.stringify(each)} ?selected=${each === value}>${String(each)}</option>`)}
    </select>`;
  }
  if (node.type === "integer" || node.type === "number") {
    return html`<input id=${id} type="number" step=${node.type === "integer" ? 1 : "any"} min=${node.minimum ?? nothing} max=${node.maximum ?? nothing} .value=${value ?? ""} @change=${(event: Event) => typed(event, Number)} />`;
  }
  if (node.type === "string") {
    const secret = node.sensitive || SECRET.test(name);
    return html`<input id=${id} type=${secret ? "password" : "text"} autocomplete="off" placeholder=${value === HIDDEN ? "is set; type to replace it" : nothing} .value=${value === HIDDEN ? "" : (value ?? "")} @change=${(event: Event) => typed(event, String)} />`;
  }
  if (words(node) && (value == null || (Array.isArray(value) && value.every((each) => typeof each === "string")))) {
    const lines: string[] = value ?? [];
    return html`<textarea id=${id} rows=${Math.min(8, lines.length + 1)} spellcheck="false" placeholder="One on each line" .value=${lines.join("\n")} @change=${(event: Event) => typed(event, listed)}></textarea>`;
  }
  const text = value === undefined || value === null ? "" : JSON.stringify(value, null, 2);
  return html`<textarea id=${id} rows=${Math.min(8, Math.max(2, text.split("\n").length))} spellcheck="false" .value=${text} @change=${(event: Event) => typed(event, (given) => (node.anyOf && !/^[[{"\d]|^(true|false)$/.test(given) ? given : JSON.parse(given)))}></textarea>`;
}

/** What a new entry of this kind starts as. */
export function begun(node: Json): Json {
  if (node.properties || node.type === "object") return {};
  if (node.enum) return node.enum[0];
  if (node.type === "array") return [];
  if (node.type === "integer" || node.type === "number") return node.minimum ?? 0;
  return node.type === "boolean" ? true : "";
}

/** What a description says, without the name of the setting in front. */
export function plain(description: string | undefined): string {
  return (description ?? "").replace(/^`[^`]*`:\s*/, "");
}

/** Lines, or a list in JSON by someone who has one. */
function listed(text: string): Json {
  if (text.trim().startsWith("[")) return JSON.parse(text);
  return text.split("\n").map((line) => line.trim()).filter(Boolean);
}

/** A list of words needs no JSON. */
function words(node: Json): boolean {
  return node.type === "array" && node.items?.type === "string";
}

/** A setting that can be one word or more is a word for as long as nobody wrote more. */
function simple(node: Json, value: Json): Json {
  const options: Json[] = node.anyOf?.filter((each: Json) => each.type !== "null") ?? [];
  const word = options.find((each) => each.type === "string" && !each.enum);
  return word && options.length > 1 && (value == null || typeof value === "string") ? { ...node, anyOf: undefined, type: "string" } : node;
}
