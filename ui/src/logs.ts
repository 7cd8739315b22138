// The gateway's log, as it grows.

import { html, nothing } from "lit";
import { gateway, type Json } from "./gateway.js";
import { Page } from "./page.js";
import { visible } from "./text.js";

const KEPT = 2000;
const EVERY_MS = 2000;
const LEVELS = ["debug", "info", "warn", "error"];

class Logs extends Page {
  static properties = { lines: { state: true }, level: { state: true }, search: { state: true }, paused: { state: true } };
  declare lines: Json[];
  declare level: string;
  declare search: string;
  declare paused: boolean;
  private cursor: number | undefined;
  private file = "";
  private timer = 0;

  constructor() {
    super();
    this.lines = [];
    this.level = "info";
    this.search = "";
    this.paused = false;
  }

  connectedCallback(): void {
    super.connectedCallback();
    this.timer = window.setInterval(() => {
      if (!this.paused && gateway.state === "ready" && document.visibilityState === "visible") void this.refresh();
    }, EVERY_MS);
  }

  disconnectedCallback(): void {
    super.disconnectedCallback();
    clearInterval(this.timer);
  }

  protected async load(): Promise<void> {
    const found = await gateway.call("logs.tail", this.cursor === undefined ? { limit: 500 } : { cursor: this.cursor, limit: 1000 });
    if (found.reset || found.file !== this.file) this.lines = [];
    this.file = found.file;
    this.cursor = found.cursor;
    if (found.lines.length) this.lines = [...this.lines, ...found.lines.map(read)].slice(-KEPT);
  }

  render() {
    const least = LEVELS.indexOf(this.level);
    const wanted = this.search.toLowerCase();
    const shown = this.lines.filter((line) => LEVELS.indexOf(line.level) >= least && (!wanted || `${line.name} ${line.text}`.toLowerCase().includes(wanted)));
    return this.frame(
      "Logs",
      html`<p class="hint">${this.file}</p>
        <div class="log" role="log" tabindex="0" aria-label="Log">
          ${shown.slice(-500).map((line) => html`<div class="line ${line.level}"><time>${line.at}</time> <b>${line.level}</b> <span class="hint">${line.name}</span> ${visible(line.text)}</div>`)}
          ${shown.length ? nothing : html`<p class="empty">Nothing to show.</p>`}
        </div>`,
      html`<input type="search" aria-label="Search the log" placeholder="Search" @input=${(event: Event) => (this.search = (event.target as HTMLInputElement).value)} />
        <select aria-label="Level" @change=${(event: Event) => (this.level = (event.target as HTMLSelectElement).value)}>${LEVELS.map((each) => html`<option ?selected=${each === this.level}>${each}</option>`)}</select>
        <button type="button" @click=${() => (this.paused = !this.paused)} aria-pressed=${this.paused}>${this.paused ? "Go on" : "Pause"}</button>`,
    );
  }
}
customElements.define("oc-logs", Logs);

function read(text: string): Json {
  try {
    const line = JSON.parse(text);
    const level = String(line.level ?? "info").toLowerCase();
    return {
      at: String(line.time ?? "").slice(11, 19),
      level: level.startsWith("warn") ? "warn" : level === "critical" || level === "fatal" ? "error" : LEVELS.includes(level) ? level : "info",
      name: String(line.subsystem ?? line.name ?? line.logger ?? ""),
      text: String(line.message ?? line.msg ?? text),
    };
  } catch {
    return { at: "", level: "info", name: "", text };
  }
}
