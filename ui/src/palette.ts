// Going anywhere by keyboard: pages, conversations and a few acts, by a part of their name.

import { oneLine } from "./text.js";

export interface Way {
  name: string;
  hint?: string;
  go(): void;
}

const SHOWN = 12;

/** Asks where to go. */
export function palette(ways: Way[]): void {
  if (document.querySelector("dialog[open]")) return;
  const dialog = document.createElement("dialog");
  dialog.className = "palette";
  dialog.setAttribute("aria-label", "Go to");
  const input = document.createElement("input");
  input.type = "search";
  input.placeholder = "Where to?";
  input.setAttribute("aria-label", "Where to?");
  input.setAttribute("role", "combobox");
  input.setAttribute("aria-expanded", "true");
  input.setAttribute("aria-controls", "ways");
  const list = document.createElement("ul");
  list.id = "ways";
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Ways");
  let shown: Way[] = [];
  let at = 0;
  const mark = () => {
    [...list.children].forEach((each, place) => each.setAttribute("aria-selected", String(place === at)));
    input.setAttribute("aria-activedescendant", shown.length ? `way-${at}` : "");
    list.children[at]?.scrollIntoView({ block: "nearest" });
  };
  const take = (way: Way | undefined) => {
    dialog.close();
    way?.go();
  };
  const draw = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    shown = ways.filter((way) => words.every((word) => `${way.name} ${way.hint ?? ""}`.toLowerCase().includes(word))).slice(0, SHOWN);
    at = 0;
    list.replaceChildren(
      ...shown.map((way, place) => {
        const row = document.createElement("li");
        row.id = `way-${place}`;
        row.setAttribute("role", "option");
        row.append(oneLine(way.name, 80));
        if (way.hint) {
          const hint = document.createElement("small");
          hint.textContent = way.hint;
          row.append(hint);
        }
        row.onclick = () => take(way);
        return row;
      }),
    );
    mark();
  };
  input.oninput = draw;
  input.onkeydown = (event) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step) at = Math.min(Math.max(at + step, 0), Math.max(shown.length - 1, 0));
    else if (event.key === "Enter") take(shown[at]);
    else return;
    event.preventDefault();
    mark();
  };
  dialog.onclose = () => dialog.remove();
  dialog.onclick = (event) => event.target === dialog && dialog.close();
  dialog.append(input, list);
  document.body.append(dialog);
  draw();
  dialog.showModal();
}

/** Shows which keys do what. */
export function keys(rows: [keys: string, what: string][]): void {
  if (document.querySelector("dialog[open]")) return;
  const dialog = document.createElement("dialog");
  dialog.className = "keys";
  const title = document.createElement("h2");
  title.textContent = "Keys";
  const list = document.createElement("dl");
  for (const [names, what] of rows) {
    const term = document.createElement("dt");
    names.split(" ").forEach((name) => {
      const key = document.createElement("kbd");
      key.textContent = name;
      term.append(key, " ");
    });
    const told = document.createElement("dd");
    told.textContent = what;
    list.append(term, told);
  }
  const close = document.createElement("button");
  close.type = "button";
  close.textContent = "Close";
  close.onclick = () => dialog.close();
  const buttons = document.createElement("div");
  buttons.className = "buttons";
  buttons.append(close);
  dialog.setAttribute("aria-label", "Keys");
  dialog.append(title, list, buttons);
  dialog.onclose = () => dialog.remove();
  document.body.append(dialog);
  dialog.showModal();
  close.focus();
}
