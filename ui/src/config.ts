// The configuration as a form, made from its schema.

import { html, nothing } from "lit";
import { begun, control, plain } from "./config-field.js";
import { gateway, type Json } from "./gateway.js";
import { Page } from "./page.js";

/** How deep settings lie at most; the schema is a tree, and maps of maps make it no deeper than this. */
const DEPTH = 8;

interface Change {
  at: string[];
  /** Nothing takes the setting back. */
  value: Json;
}

class Config extends Page {
  static properties = { section: { state: true }, search: { state: true }, changes: { state: true }, typing: { state: true } };
  declare section: string;
  declare search: string;
  /** By the name of the setting, as the gateway writes it. */
  declare changes: Map<string, Change>;
  /** Something was typed that is no change yet: it becomes one when its field is left. */
  declare typing: boolean;
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
    if (options.length === 1) {
      const only = this.resolve(options[0]);
      return { ...only, ...node, anyOf: only.anyOf };
    }
    return node ?? {};
  }

  /** What is in the file. */
  private value(at: string[]): Json {
    return at.reduce((found: Json, part) => (found == null ? undefined : found[part]), this.config.config);
  }

  /** The names under a setting that is a list of named things, as it will be. */
  private names(at: string[]): string[] {
    const set = this.value(at);
    const known = Object.keys(set && typeof set === "object" ? set : {});
    const changed = [...this.changes.values()].filter((each) => each.at.length > at.length && at.every((part, place) => each.at[place] === part));
    const names = new Set([...known, ...changed.map((each) => each.at[at.length]!)]);
    return [...names].filter((name) => {
      const change = this.changes.get(written([...at, name]));
      return !change || change.value !== undefined;
    });
  }

  private change(at: string[], value: Json): void {
    this.become(new Map(this.changes).set(written(at), { at, value }));
  }

  /** Takes a named thing away, with all that was changed in it. */
  private take(at: string[]): void {
    const name = written(at);
    const next = new Map([...this.changes].filter(([key]) => key !== name && !key.startsWith(`${name}.`) && !key.startsWith(`${name}[`)));
    if (this.value(at) !== undefined) next.set(name, { at, value: undefined });
    this.become(next);
  }

  private become(changes: Map<string, Change>): void {
    this.changes = changes;
    this.typing = false;
    this.told = "";
  }

  private add(event: Event, at: string[], item: Json, taken: string[]): void {
    const input = (event.target as HTMLElement).closest(".add")!.querySelector("input")!;
    const name = input.value.trim();
    if (!name || taken.includes(name)) {
      input.setCustomValidity(name ? "There is one of that name already." : "Give it a name first.");
      input.reportValidity();
      return;
    }
    input.value = "";
    this.change([...at, name], begun(item));
  }

  private async save(): Promise<void> {
    if (this.typing) (document.activeElement as HTMLElement | null)?.blur();
    this.typing = false;
    if (!this.changes.size) return;
    const patch: Json = {};
    for (const { at, value } of this.changes.values()) {
      const parts = [...at];
      const last = parts.pop()!;
      let place = patch;
      for (const part of parts) place = place[part] ??= {};
      place[last] = value === undefined ? null : value;
    }
    const lists = [...this.changes].filter(([, { value }]) => Array.isArray(value)).map(([name]) => name);
    await this.attempt(async () => {
      await gateway.call("config.patch", { raw: JSON.stringify(patch), ...(this.config.exists ? { baseHash: this.config.hash } : {}), replacePaths: lists });
      this.changes = new Map();
      await this.load();
    }, "Saved.");
  }

  render() {
    if (!this.schema || !this.config) return this.frame("Settings", this.problem ? nothing : html`<p class="empty">Loading…</p>`);
    const root = this.resolve(this.schema);
    const sections = Object.keys(root.properties).filter((name) => {
      const node = this.resolve(root.properties[name]);
      return node.properties || named(node);
    });
    const wanted = this.search.trim().toLowerCase();
    const node = this.resolve(root.properties[this.section]);
    return this.frame(
      "Settings",
      html`<p class="hint">${this.config.path}</p>
        ${this.config.issues.map((each: Json) => html`<p class="problem">${each.message}</p>`)}
        <div class="split">
          <ul class="list" aria-label="Sections">
            ${sections.filter((name) => !wanted || this.any(this.resolve(root.properties[name]), [name], wanted)).map((name) => html`<li><button type="button" class="quiet" aria-current=${name === this.section ? "true" : nothing} @click=${() => (this.section = name)}>${name}</button></li>`)}
          </ul>
          <form class="fields" @input=${(event: Event) => (this.typing = !(event.target as HTMLElement).closest(".add"))} @submit=${(event: Event) => (event.preventDefault(), void this.save())}>
            ${wanted ? sections.map((name) => this.setting(root.properties[name], name, [name], wanted)) : this.whole(node)}
            <div class="buttons sticky"><button class="primary" ?disabled=${!this.changes.size && !this.typing}>Save ${this.changes.size || ""}</button><button type="button" ?disabled=${!this.changes.size} @click=${() => (this.changes = new Map())}>Undo changes</button></div>
          </form>
        </div>`,
      html`<input type="search" aria-label="Search the settings" placeholder="Search" @input=${(event: Event) => (this.search = (event.target as HTMLInputElement).value)} />`,
    );
  }

  private whole(node: Json) {
    const at = [this.section];
    return html`<p>${plain(node.description)}</p>
      ${this.fields(node, at, "")}${extensible(node) ? this.list(node, this.section, at) : nothing}`;
  }

  /** Whether a setting at or below a node is about what is looked for. */
  private any(node: Json, at: string[], wanted: string): boolean {
    if (at.length > DEPTH) return false;
    const below = Object.entries<Json>(node.properties ?? {}).some(([name, raw]) => this.any(this.resolve(raw), [...at, name], wanted));
    if (below || (extensible(node) && this.any(this.resolve(node.additionalProperties), [...at, "*"], wanted))) return true;
    return !node.properties && about(node, at, wanted);
  }

  private fields(node: Json, at: string[], wanted: string): unknown {
    return Object.entries<Json>(node.properties ?? {}).map(([name, raw]) => this.setting(raw, name, [...at, name], wanted));
  }

  private setting(raw: Json, name: string, at: string[], wanted: string): unknown {
    const node = this.resolve(raw);
    if (node.properties && at.length < DEPTH) {
      const more = extensible(node) && (!wanted || this.any({ ...node, properties: undefined }, at, wanted)) ? this.list(node, wanted ? written(at) : name, at) : nothing;
      if (wanted) return [this.fields(node, at, wanted), more];
      return html`<fieldset><legend>${name}</legend><p class="hint">${plain(node.description)}</p>${this.fields(node, at, wanted)}${more}</fieldset>`;
    }
    if (wanted && !this.any(node, at, wanted)) return nothing;
    return named(node) && at.length < DEPTH ? this.list(node, wanted ? written(at) : name, at) : this.field(node, wanted ? written(at) : name, at);
  }

  /** Named things, such as providers or servers, each with its settings; those with settings of their own stand elsewhere. */
  private list(node: Json, name: string, at: string[]) {
    const item = this.resolve(node.additionalProperties);
    const own = Object.keys(node.properties ?? {});
    const names = this.names(at);
    return html`<fieldset class="keyed" data-path=${written(at)}>
      <legend>${name}</legend><p class="hint">${plain(node.description)}</p>
      ${names.filter((key) => !own.includes(key)).map((key) => this.entry(item, key, [...at, key]))}
      <div class="add">
        <input form="none" aria-label="Name of another entry of ${written(at)}" placeholder="Name" autocomplete="off"
          @input=${(event: Event) => (event.target as HTMLInputElement).setCustomValidity("")}
          @keydown=${(event: KeyboardEvent) => event.key === "Enter" && (event.preventDefault(), this.add(event, at, item, [...own, ...names]))} />
        <button type="button" @click=${(event: Event) => this.add(event, at, item, [...own, ...names])}>Add</button>
      </div>
    </fieldset>`;
  }

  private entry(item: Json, key: string, at: string[]): unknown {
    const gone = html`<button type="button" class="quiet" aria-label="Remove ${written(at)}" @click=${() => this.take(at)}>Remove</button>`;
    const changed = this.changes.has(written(at)) ? "changed" : "";
    if (item.properties) return html`<fieldset class="entry ${changed}"><legend>${key} ${gone}</legend>${this.fields(item, at, "")}</fieldset>`;
    if (named(item)) return html`<div class="entry">${this.list(item, key, at)}${gone}</div>`;
    return html`<div class="field entry ${changed}"><label for=${written(at)}>${key}</label>${this.control(item, key, at)} ${gone}</div>`;
  }

  private field(node: Json, name: string, at: string[]) {
    const change = this.changes.get(written(at));
    const value = change ? change.value : this.value(at);
    return html`<div class="field ${change ? "changed" : ""}">
      <label for=${written(at)}>${name}</label>
      ${this.control(node, name, at)}
      <p class="hint">${node.description}${node.default != null && node.default !== "" ? html` <span>Default: ${JSON.stringify(node.default)}</span>` : nothing}
        ${value !== undefined && value !== null ? html`<button type="button" class="quiet" @click=${() => this.change(at, undefined)}>Use the default</button>` : nothing}</p>
    </div>`;
  }

  private control(node: Json, name: string, at: string[]) {
    const change = this.changes.get(written(at));
    const known = { ...node, items: node.items ? this.resolve(node.items) : undefined };
    return control(known, name, written(at), change ? change.value : this.value(at), (value) => this.change(at, value));
  }
}
customElements.define("oc-config", Config);

/** Whether a setting is a list of named things of one kind. */
function named(node: Json): boolean {
  return node.type === "object" && !node.properties && extensible(node);
}

/** Whether a setting takes named things of one kind, maybe beside names that have settings of their own. */
function extensible(node: Json): boolean {
  return typeof node.additionalProperties === "object" && node.additionalProperties !== null;
}

/** The name of a setting as the gateway writes it. */
function written(at: string[]): string {
  return at.map((part, place) => (/^[^.[\]"'\s]+$/.test(part) ? (place ? `.${part}` : part) : `[${JSON.stringify(part)}]`)).join("");
}

function about(node: Json, at: string[], wanted: string): boolean {
  return `${written(at)} ${node.description ?? ""}`.toLowerCase().includes(wanted);
}
