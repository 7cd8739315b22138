// Where messages are written: text, images, commands.

import { html, nothing } from "lit";
import { Element } from "./element.js";
import { gateway, type Json } from "./gateway.js";

const KINDS = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const MOST_BYTES = 5 * 1024 * 1024;
const MOST_IMAGES = 8;

class Composer extends Element {
  static properties = { busy: { type: Boolean }, waiting: { type: Number }, images: { state: true }, problem: { state: true }, commands: { state: true } };
  declare busy: boolean;
  declare waiting: number;
  declare images: string[];
  declare problem: string;
  declare commands: Json[];
  private known: Json[] | undefined;

  constructor() {
    super();
    this.busy = false;
    this.waiting = 0;
    this.images = [];
    this.problem = "";
    this.commands = [];
  }

  private get area(): HTMLTextAreaElement {
    return this.querySelector("textarea")!;
  }

  /** Puts text up for editing. */
  put(text: string): void {
    this.area.value = text;
    this.fit();
    this.area.focus();
  }

  protected firstUpdated(): void {
    if (matchMedia("(hover: hover)").matches) this.area.focus();
  }

  private submit(): void {
    const text = this.area.value.trim();
    if (!text && !this.images.length) return;
    this.dispatchEvent(new CustomEvent("message", { detail: { text, images: this.images } }));
    this.images = [];
    this.commands = [];
    this.problem = "";
    this.area.value = "";
    this.fit();
  }

  private fit(): void {
    this.area.style.height = "auto";
    this.area.style.height = `${Math.min(this.area.scrollHeight, innerHeight * 0.4)}px`;
  }

  private async typed(): Promise<void> {
    this.fit();
    const text = this.area.value;
    if (!/^\/[a-z]*$/.test(text)) {
      this.commands = [];
      return;
    }
    this.known ??= await gateway.call("commands.list", {}).then((answer) => answer.commands, () => []);
    const now = this.area.value;
    this.commands = now.startsWith("/") ? this.known!.filter((each) => `/${each.name}`.startsWith(now)) : [];
  }

  private pressed(event: KeyboardEvent): void {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      this.submit();
    } else if (event.key === "Tab" && this.commands.length) {
      event.preventDefault();
      this.put(`/${this.commands[0]!.name} `);
      this.commands = [];
    }
  }

  private async attach(files: Iterable<File>): Promise<void> {
    this.problem = "";
    for (const file of files) {
      if (!KINDS.includes(file.type)) this.problem = `${file.name || "this file"} is not a PNG, JPEG, GIF or WebP image.`;
      else if (file.size > MOST_BYTES) this.problem = `${file.name || "this image"} is larger than 5 MB.`;
      else if (this.images.length >= MOST_IMAGES) this.problem = `At most ${MOST_IMAGES} images go with one message.`;
      else this.images = [...this.images, await dataUrl(file)];
    }
  }

  private pasted(event: ClipboardEvent): void {
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.length) {
      event.preventDefault();
      void this.attach(files);
    }
  }

  private dropped(event: DragEvent): void {
    event.preventDefault();
    void this.attach([...(event.dataTransfer?.files ?? [])]);
  }

  render() {
    return html`<form class="composer" @submit=${(event: Event) => (event.preventDefault(), this.submit())} @drop=${this.dropped} @dragover=${(event: Event) => event.preventDefault()}>
      ${this.commands.length
        ? html`<ul class="commands" aria-label="Commands">${this.commands.map((each) => html`<li><button type="button" @click=${() => (this.put(`/${each.name} `), (this.commands = []))}><b>/${each.name}</b> ${each.description}</button></li>`)}</ul>`
        : nothing}
      ${this.images.length
        ? html`<div class="images">${this.images.map((url, place) => html`<button type="button" title="Remove" aria-label="Remove image ${place + 1}" @click=${() => (this.images = this.images.filter((_, other) => other !== place))}><img src=${url} alt="" /></button>`)}</div>`
        : nothing}
      ${this.problem ? html`<p class="problem" role="alert">${this.problem}</p>` : nothing}
      <div class="row">
        <label class="attach" title="Attach images"><input type="file" multiple accept=${KINDS.join(",")} @change=${(event: Event) => this.chosen(event)} /><span aria-hidden="true">+</span><span class="away">Attach images</span></label>
        <textarea rows="1" placeholder="Message" aria-label="Message" @input=${() => void this.typed()} @keydown=${this.pressed} @paste=${this.pasted}></textarea>
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
