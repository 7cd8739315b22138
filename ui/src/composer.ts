// Where messages are written: text, images, commands.

import { html, nothing } from "lit";
import { Element } from "./element.js";
import { gateway, type Json } from "./gateway.js";
import type { Attached } from "./talk.js";
import { oneLine } from "./text.js";

const IMAGES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const IMAGE_BYTES = 5 * 1024 * 1024;
const FILE_BYTES = 18 * 1024 * 1024;
const MOST_IMAGES = 8;
const MOST_FILES = 10;

class Composer extends Element {
  static properties = { key: {}, busy: { type: Boolean }, waiting: { type: Number }, attached: { state: true }, problem: { state: true }, commands: { state: true }, at: { state: true } };
  declare key: string;
  declare busy: boolean;
  declare waiting: number;
  declare attached: Attached[];
  declare problem: string;
  declare commands: Json[];
  /** Which of the commands is chosen. */
  declare at: number;
  private known: Json[] | undefined;

  constructor() {
    super();
    this.busy = false;
    this.waiting = 0;
    this.attached = [];
    this.problem = "";
    this.commands = [];
    this.at = 0;
  }

  private get area(): HTMLTextAreaElement {
    return this.querySelector("textarea")!;
  }

  /** Puts text up for editing. */
  put(text: string): void {
    this.write(text);
    this.area.focus();
  }

  private write(text: string): void {
    this.area.value = text;
    this.keep();
    this.fit();
  }

  /** What is written and not sent is still there after a look at another page. */
  private keep(): void {
    if (this.area.value) sessionStorage.setItem(`openclaw.draft:${this.key}`, this.area.value);
    else sessionStorage.removeItem(`openclaw.draft:${this.key}`);
  }

  protected updated(changed: Map<string, unknown>): void {
    if (changed.has("at")) this.querySelector(`#command-${this.at}`)?.scrollIntoView({ block: "nearest" });
    if (!changed.has("key")) return;
    this.area.value = sessionStorage.getItem(`openclaw.draft:${this.key}`) ?? "";
    this.attached = [];
    this.fit();
  }

  protected firstUpdated(): void {
    if (matchMedia("(hover: hover)").matches) this.area.focus();
  }

  private submit(): void {
    const text = this.area.value.trim();
    if ((!text || text === "/") && !this.attached.length) return;
    const { attached } = this;
    this.attached = [];
    this.commands = [];
    this.problem = "";
    this.write("");
    this.dispatchEvent(new CustomEvent("message", { detail: { text, attached } }));
  }

  private fit(): void {
    this.area.style.height = "auto";
    this.area.style.height = `${Math.min(this.area.scrollHeight, innerHeight * 0.4)}px`;
  }

  private async typed(): Promise<void> {
    this.keep();
    this.fit();
    const text = this.area.value;
    this.at = 0;
    if (!/^\/[a-z-]*$/.test(text)) {
      this.commands = [];
      return;
    }
    this.known ??= await gateway.call("commands.list", {}).then((answer) => answer.commands, () => []);
    const now = this.area.value;
    this.commands = now.startsWith("/") ? this.known!.filter((each) => `/${each.name}`.startsWith(now)) : [];
  }

  private pressed(event: KeyboardEvent): void {
    const chosen = this.commands[this.at];
    if (event.isComposing) return;
    if (event.key === "Enter" && !event.shiftKey) {
      // A command that is only begun is completed; one that stands there whole is sent.
      if (chosen && this.area.value !== `/${chosen.name}`) this.choose(chosen);
      else this.submit();
    } else if (event.key === "Tab" && chosen) this.choose(chosen);
    else if (event.key === "ArrowDown" && chosen) this.at = (this.at + 1) % this.commands.length;
    else if (event.key === "ArrowUp" && chosen) this.at = (this.at + this.commands.length - 1) % this.commands.length;
    else if (event.key === "Escape" && chosen) {
      event.stopPropagation();
      this.commands = [];
    } else return;
    event.preventDefault();
  }

  private choose(command: Json): void {
    this.commands = [];
    this.put(`/${command.name} `);
  }

  async attach(files: Iterable<File>): Promise<void> {
    this.problem = "";
    for (const file of files) {
      const name = file.name || "pasted image";
      const image = IMAGES.includes(file.type);
      const same = this.attached.filter((each) => IMAGES.includes(each.kind) === image);
      if (image && file.size > IMAGE_BYTES) this.problem = `${name} is larger than 5 MB.`;
      else if (file.size > FILE_BYTES) this.problem = `${name} is larger than 18 MB.`;
      else if (!file.size) this.problem = `${name} is empty.`;
      else if (image && same.length >= MOST_IMAGES) this.problem = `At most ${MOST_IMAGES} images go with one message.`;
      else if (!image && same.length >= MOST_FILES) this.problem = `At most ${MOST_FILES} files go with one message.`;
      else if (!image && same.some((each) => each.name === name)) this.problem = `There is a ${name} already.`;
      else this.attached = [...this.attached, { name, kind: file.type || "application/octet-stream", content: await dataUrl(file) }];
    }
  }

  private pasted(event: ClipboardEvent): void {
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.length) {
      event.preventDefault();
      void this.attach(files);
    }
  }

  render() {
    return html`<form class="composer" @submit=${(event: Event) => (event.preventDefault(), this.submit())}>
      ${this.commands.length
        ? html`<ul class="commands" id="commands" role="listbox" aria-label="Commands">${this.commands.map((each, place) => html`<li id="command-${place}" role="option" aria-selected=${place === this.at} @mousedown=${(event: Event) => (event.preventDefault(), this.choose(each))}><b>/${each.name}</b> ${each.description}</li>`)}</ul>`
        : nothing}
      ${this.attached.length
        ? html`<div class="images">${this.attached.map((each, place) => html`<button type="button" title="Remove" aria-label="Remove ${each.name}" @click=${() => (this.attached = this.attached.filter((_, other) => other !== place))}>${IMAGES.includes(each.kind) ? html`<img src=${each.content} alt="" />` : html`<span class="chip"><span aria-hidden="true">📎</span> ${oneLine(each.name, 40)}</span>`}</button>`)}</div>`
        : nothing}
      ${this.problem ? html`<p class="problem" role="alert">${this.problem} <button type="button" class="quiet" aria-label="Close" @click=${() => (this.problem = "")}>×</button></p>` : nothing}
      <div class="row">
        <label class="attach" title="Attach images and files"><input type="file" multiple @change=${(event: Event) => this.chosen(event)} /><span aria-hidden="true">+</span><span class="away">Attach images and files</span></label>
        <textarea rows="1" placeholder="Message" aria-label="Message" aria-controls="commands" aria-activedescendant=${this.commands.length ? `command-${this.at}` : nothing} @input=${() => void this.typed()} @keydown=${this.pressed} @paste=${this.pasted}></textarea>
        ${this.busy ? html`<button type="button" class="stop" @click=${() => this.dispatchEvent(new Event("stop"))} title="Stop (Escape)">Stop</button>` : nothing}
        <button type="submit" class="primary">${this.busy ? "Add" : "Send"}</button>
      </div>
      ${this.waiting ? html`<p class="hint" role="status">${this.waiting} message${this.waiting > 1 ? "s" : ""} waiting for the assistant's next step</p>` : nothing}
    </form>`;
  }

  private chosen(event: Event): void {
    const input = event.target as HTMLInputElement;
    void this.attach([...(input.files ?? [])]);
    input.value = "";
  }
}
customElements.define("oc-composer", Composer);

function dataUrl(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result as string);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
