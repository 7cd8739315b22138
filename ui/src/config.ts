// The configuration as a form, made from its schema.

import { html, nothing } from "lit";
import { gateway, type Json } from "./gateway.js";
import { Page } from "./page.js";

const SECRET = /token|password|secret|apikey/i;

class Config extends Page {
  static properties = { section: { state: true }, search: { state: true }, changes: { state: true } };
  declare section: string;
  declare search: string;
  declare changes: Map<string, Json>;
  private schema: Json;
  private config: Json;

  constructor() {
    super();
    this.section = "agents";
    this.search = "";
    this.changes = new Map();
  }

  connectedCallback(): void {
    super.connectedCallback();
    this.hear("config.changed", () => !this.changes.size && void this.refresh());
  }

  protected async load(): Promise<void> {
    this.schema ??= (await gateway.call("config.schema")).schema;
    this.config = await gateway.call("config.get");
    this.requestUpdate();
  }

  private resolve(node: Json): Json {
    if (node?.$ref) {
      const { $ref, ...own } = node;
      return { ...this.resolve(this.schema.$defs[String($ref).split("/").pop()!]), ...own };
    }
    const options = node?.anyOf?.filter((each: Json) => each.type !== "null") ?? [];
    if (options.length === 1) return { ...this.resolve(options[0]), ...node, anyOf: undefined };
    return node ?? {};
  }

  private value(path: string): Json {
    return path.split(".").reduce((at: Json, part) => (at == null ? undefined : at[part]), this.config.config);
  }

  private change(path: string, value: Json): void {
    const next = new Map(this.changes);
    next.set(path, value);
    this.changes = next;
  }

  private async save(): Promise<void> {
    const patch: Json = {};
    for (const [path, value] of this.changes) {
      const parts = path.split(".");
      const last = parts.pop()!;
      let at = patch;
      for (const part of parts) at = at[part] ??= {};
      at[last] = value === undefined ? null : value;
    }
    await this.attempt(async () => {
      await gateway.call("config.patch", { raw: JSON.stringify(patch), ...(this.config.exists ? { baseHash: this.config.hash } : {}), replacePaths: [...this.changes].filter(([, value]) => Array.isArray(value)).map(([path]) => path) });
      this.changes = new Map();
      await this.load();
    }, "Saved.");
  }

  render() {
    if (!this.schema || !this.config) return this.frame("Settings", this.problem ? nothing : html`<p class="empty">Loading…</p>`);
    const root = this.resolve(this.schema);
    const sections = Object.keys(root.properties).filter((name) => this.resolve(root.properties[name]).properties);
    const wanted = this.search.trim().toLowerCase();
    const node = this.resolve(root.properties[this.section]);
    return this.frame(
      "Settings",
      html`<p class="hint">${this.config.path}</p>
        ${this.config.issues.map((each: Json) => html`<p class="problem">${each.message}</p>`)}
        <div class="split">
          <ul class="list" aria-label="Sections">
            ${sections.filter((name) => !wanted || this.any(this.resolve(root.properties[name]), name, 0, wanted)).map((name) => html`<li><button type="button" class="quiet" aria-current=${name === this.section ? "true" : nothing} @click=${() => (this.section = name)}>${name}</button></li>`)}
          </ul>
          <form class="fields" @submit=${(event: Event) => (event.preventDefault(), void this.save())}>
            ${wanted
              ? sections.map((name) => this.fields(this.resolve(root.properties[name]), name, 0, wanted))
              : html`<p>${plain(node.description)}</p>
                  ${this.fields(node, this.section, 0, "")}`}
            <div class="buttons sticky"><button class="primary" ?disabled=${!this.changes.size}>Save ${this.changes.size || ""}</button><button type="button" ?disabled=${!this.changes.size} @click=${() => (this.changes = new Map())}>Undo changes</button></div>
          </form>
        </div>`,
      html`<input type="search" aria-label="Search the settings" placeholder="Search" @input=${(event: Event) => (this.search = (event.target as HTMLInputElement).value)} />`,
    );
  }

  /** Whether a setting below a node is about what is looked for. */
  private any(node: Json, path: string, depth: number, wanted: string): boolean {
    return Object.entries<Json>(node.properties ?? {}).some(([name, raw]) => {
      const child = this.resolve(raw);
      const at = `${path}.${name}`;
      return child.properties && depth < 4 ? this.any(child, at, depth + 1, wanted) : about(child, at, wanted);
    });
  }

  private fields(node: Json, path: string, depth: number, wanted: string): unknown {
    return Object.entries<Json>(node.properties ?? {}).map(([name, raw]) => {
      const child = this.resolve(raw);
      const at = `${path}.${name}`;
      if (child.properties && depth < 4) {
        if (wanted) return this.fields(child, at, depth + 1, wanted);
        return html`<fieldset><legend>${name}</legend><p class="hint">${plain(child.description)}</p>${this.fields(child, at, depth + 1, wanted)}</fieldset>`;
      }
      return !wanted || about(child, at, wanted) ? this.field(child, wanted ? at : name, at) : nothing;
    });
  }

  private field(node: Json, name: string, path: string) {
    const set = this.value(path);
    const changed = this.changes.has(path);
    const value = changed ? this.changes.get(path) : set;
    return html`<div class="field ${changed ? "changed" : ""}">
      <label for=${path}>${name}</label>
      ${this.input(simple(node, value), name, path, value)}
      <p class="hint">${node.description}${node.default != null && node.default !== "" ? html` <span>Default: ${JSON.stringify(node.default)}</span>` : nothing}
        ${value !== undefined && value !== null ? html`<button type="button" class="quiet" @click=${() => this.change(path, undefined)}>Use the default</button>` : nothing}</p>
    </div>`;
  }

  private input(node: Json, name: string, path: string, value: Json) {
    const put = (event: Event, read: (text: string) => Json) => {
      const input = event.target as HTMLInputElement;
      try {
        input.setCustomValidity("");
        this.change(path, input.value === "" ? undefined : read(input.value));
      } catch {
        input.setCustomValidity("This is not JSON.");
        input.reportValidity();
      }
    };
    const choices: Json[] | undefined = node.enum ?? (node.type === "boolean" ? [true, false] : undefined);
    if (choices) {
      return html`<select id=${path} @change=${(event: Event) => put(event, (text) => JSON.parse(text))}>
        <option value="" ?selected=${value == null}>default</option>
        ${choices.map((each) => html`<option value=${JSON.stringify(each)} ?selected=${each === value}>${String(each)}</option>`)}
      </select>`;
    }
    if (node.type === "integer" || node.type === "number") {
      return html`<input id=${path} type="number" step=${node.type === "integer" ? 1 : "any"} min=${node.minimum ?? nothing} max=${node.maximum ?? nothing} .value=${value ?? ""} @change=${(event: Event) => put(event, Number)} />`;
    }
    if (node.type === "string") {
      const secret = SECRET.test(name);
      return html`<input id=${path} type=${secret ? "password" : "text"} autocomplete="off" .value=${value ?? ""} @change=${(event: Event) => put(event, String)} />`;
    }
    const text = value === undefined || value === null ? "" : JSON.stringify(value, null, 2);
    return html`<textarea id=${path} rows=${Math.min(8, Math.max(2, text.split("\n").length))} spellcheck="false" .value=${text} @change=${(event: Event) => put(event, (typed) => (node.anyOf && !/^[[{"\d]|^(true|false)$/.test(typed) ? typed : JSON.parse(typed)))}></textarea>`;
  }
}
customElements.define("oc-config", Config);

/** A setting that can be one word or more is a word for as long as nobody wrote more. */
function simple(node: Json, value: Json): Json {
  const options: Json[] = node.anyOf?.filter((each: Json) => each.type !== "null") ?? [];
  const word = options.find((each) => each.type === "string" && !each.enum);
  return word && options.length > 1 && (value == null || typeof value === "string") ? { ...node, anyOf: undefined, type: "string" } : node;
}

/** What a description says, without the name of the setting in front. */
function plain(description: string | undefined): string {
  return (description ?? "").replace(/^`[^`]*`:\s*/, "");
}

function about(node: Json, path: string, wanted: string): boolean {
  return `${path} ${node.description ?? ""}`.toLowerCase().includes(wanted);
}
