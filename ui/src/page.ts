// The base of the pages beside the chat: load when connected, say what went wrong, ask before what cannot be undone.

import { html, nothing, type PropertyDeclarations, type TemplateResult } from "lit";
import { Element } from "./element.js";
import { gateway } from "./gateway.js";

export class Page extends Element {
  static properties: PropertyDeclarations = { problem: { state: true }, told: { state: true } };
  declare problem: string;
  declare told: string;

  constructor() {
    super();
    this.problem = "";
    this.told = "";
  }

  connectedCallback(): void {
    super.connectedCallback();
    this.hear("hello", () => void this.refresh());
    if (gateway.state === "ready") void this.attempt(() => this.load());
  }

  protected async load(): Promise<void> {}

  /** Loads again because something happened; what a person was told about their own doing stays. */
  protected async refresh(): Promise<void> {
    try {
      await this.load();
    } catch (error) {
      this.problem = (error as Error).message;
    }
    this.requestUpdate();
  }

  protected async attempt(work: () => Promise<unknown>, told = ""): Promise<void> {
    this.problem = "";
    this.told = "";
    try {
      await work();
      this.told = told;
    } catch (error) {
      this.problem = (error as Error).message;
    }
    this.requestUpdate();
  }

  protected frame(title: string, content: unknown, actions: unknown = nothing): TemplateResult {
    document.title = `${title} · OpenClaw`;
    return html`<section class="page">
      <header class="bar"><h1>${title}</h1>${actions}</header>
      ${this.problem ? html`<p class="problem" role="alert">${this.problem}</p>` : nothing}
      ${this.told ? html`<p class="good" role="status">${this.told}</p>` : nothing} ${content}
    </section>`;
  }
}

/** Asks a question; gives what was typed, or null. */
export function ask(question: string, options: { value?: string; yes?: string; input?: boolean } = {}): Promise<string | null> {
  const dialog = document.createElement("dialog");
  const form = document.createElement("form");
  form.method = "dialog";
  const text = document.createElement("p");
  text.textContent = question;
  const input = document.createElement("input");
  input.value = options.value ?? "";
  input.setAttribute("aria-label", question);
  const no = document.createElement("button");
  no.type = "button";
  no.textContent = "Cancel";
  no.onclick = () => dialog.close();
  const yes = document.createElement("button");
  yes.value = "yes";
  yes.className = "primary";
  yes.textContent = options.yes ?? "OK";
  const buttons = document.createElement("div");
  buttons.className = "buttons";
  buttons.append(no, yes);
  form.append(text, ...(options.input ? [input] : []), buttons);
  dialog.append(form);
  document.body.append(dialog);
  dialog.showModal();
  if (options.input) input.select();
  return new Promise((resolve) => {
    dialog.onclose = () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes" ? input.value : null);
    };
  });
}
