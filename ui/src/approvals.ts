// Questions about commands: the exact command, and a button for each answer that means something.

import { html, nothing } from "lit";
import { repeat } from "lit/directives/repeat.js";
import { Element } from "./element.js";
import { gateway, type Json } from "./gateway.js";
import { address } from "./place.js";
import { oneLine, visible } from "./text.js";

class Approvals extends Element {
  static properties = { sessionKey: {}, questions: { state: true }, problem: { state: true } };
  declare sessionKey: string;
  declare questions: Json[];
  declare problem: string;
  private names = new Map<string, string>();

  constructor() {
    super();
    this.questions = [];
    this.problem = "";
  }

  connectedCallback(): void {
    super.connectedCallback();
    this.hear("hello", () => void this.load());
    this.hear("exec.approval.requested", (question) => {
      this.questions = [...this.questions.filter((each) => each.id !== question.id), question];
      void this.name();
    });
    this.hear("exec.approval.resolved", ({ id }) => {
      this.questions = this.questions.filter((each) => each.id !== id);
    });
    if (gateway.state === "ready") void this.load();
  }

  private async load(): Promise<void> {
    try {
      this.questions = await gateway.call("exec.approval.list");
      await this.name();
    } catch (error) {
      this.problem = (error as Error).message;
    }
  }

  /** Learns what the conversations are called that ask something. */
  private async name(): Promise<void> {
    if (this.questions.every((each) => each.request.sessionKey === this.sessionKey || this.names.has(each.request.sessionKey))) return;
    const { sessions } = await gateway.call("sessions.list", { limit: 1000 });
    this.names = new Map(sessions.map((row: Json) => [row.key, row.displayName]));
    this.requestUpdate();
  }

  private async answer(id: string, decision: string): Promise<void> {
    this.problem = "";
    try {
      await gateway.call("exec.approval.resolve", { id, decision });
      this.questions = this.questions.filter((each) => each.id !== id);
    } catch (error) {
      this.problem = (error as Error).message;
      void this.load();
    }
  }

  render() {
    const mine = this.questions.filter((each) => each.request.sessionKey === this.sessionKey);
    const others = [...new Set(this.questions.filter((each) => !mine.includes(each)).map((each) => String(each.request.sessionKey ?? "")))];
    return html`${repeat(mine, (each) => each.id, (each) => this.question(each))}
    ${others.length
      ? html`<p class="hint">Other conversations wait for your word: ${others.map((key) => html`<a href=${address("chat", key || "main")}>${oneLine(this.names.get(key) ?? key, 60)}</a> `)}</p>`
      : nothing}
    ${this.problem ? html`<p class="problem" role="alert">${this.problem}</p>` : nothing}`;
  }

  private question(asked: Json) {
    const { command, cwd, warningText } = asked.request;
    const decisions: string[] = asked.request.allowedDecisions ?? ["allow-always"];
    const button = (decision: string, label: string, kind: string) =>
      html`<button type="button" class=${kind} data-decision=${decision} @click=${() => void this.answer(asked.id, decision)}>${label}</button>`;
    return html`<section class="approval" role="alertdialog" aria-label="May this command run?">
      <h3>May this command run?</h3>
      <pre tabindex="0">${visible(String(command))}</pre>
      <p class="hint">in ${visible(String(cwd))}${warningText ? html` · ${visible(String(warningText))}` : nothing}</p>
      <div class="buttons">
        ${button("deny", "Deny", "")} ${button("allow-once", "Allow once", "primary")}
        ${decisions.includes("allow-always") ? button("allow-always", "Always allow", "") : nothing}
      </div>
    </section>`;
  }
}
customElements.define("oc-approvals", Approvals);
