// What `openclaw doctor` and `openclaw security audit` find, with what can be done about it: a command to run, or a repair after its plan was read.

import { html, nothing } from "lit";
import { Element } from "./element.js";
import { gateway, type Json } from "./gateway.js";
import { copy } from "./markdown.js";
import { ask } from "./page.js";
import { visible } from "./text.js";

const WORDS: Record<string, string> = { critical: "critical", warn: "warning", info: "for your information" };

class Doctor extends Element {
  protected check = "doctor.check";
  protected mend = "doctor.repair";
  protected fine = "Nothing is wrong with this installation.";
  static properties = { report: { state: true }, problem: { state: true }, told: { state: true } };
  declare report: Json;
  declare problem: string;
  declare told: string;

  connectedCallback(): void {
    super.connectedCallback();
    this.hear("hello", () => void this.look());
    this.hear("config.changed", () => void this.look());
    if (gateway.state === "ready") void this.look();
  }

  private async look(method = this.check, params: Json = {}): Promise<boolean> {
    if (!gateway.offers(this.check)) return false;
    try {
      this.report = await gateway.call(method, params);
      this.problem = "";
      return true;
    } catch (error) {
      this.problem = (error as Error).message;
      return false;
    }
  }

  private async again(): Promise<void> {
    this.told = "";
    if (await this.look()) this.told = "Checked just now.";
  }

  private async repair(found: Json): Promise<void> {
    this.told = "";
    if ((await ask(`This will: ${visible(found.plan)}.`, { yes: "Repair" })) === null) return;
    if (await this.look(this.mend, { checkId: found.checkId, plan: found.plan })) this.told = `Done: ${found.plan}.`;
  }

  render() {
    if (!this.report) return this.problem ? html`<p class="problem" role="alert">${this.problem}</p>` : nothing;
    const found: Json[] = this.report.findings;
    return html`${this.problem ? html`<p class="problem" role="alert">${this.problem}</p>` : nothing}
      ${found.length ? html`<ul class="findings">${found.map((each) => this.finding(each))}</ul>` : html`<p class="good">${this.fine}</p>`}
      <p><button type="button" @click=${() => void this.again()}>Check again</button> <span class="hint" role="status">${this.told}</span></p>`;
  }

  private finding(each: Json) {
    const command = each.fixable && each.endsGateway ? "openclaw doctor --fix" : /^openclaw /.test(each.remediation ?? "") ? each.remediation : "";
    return html`<li class="finding" data-check=${each.checkId}>
      <h3><span class="badge ${each.severity === "info" ? "" : "alert"}">${WORDS[each.severity] ?? each.severity}</span> ${visible(each.title)}</h3>
      ${each.detail ? html`<details><summary>Details</summary><pre>${visible(each.detail)}</pre></details>` : nothing}
      ${each.remediation && !command ? html`<p class="hint">${visible(each.remediation)}</p>` : nothing}
      ${command ? html`<p class="hint">In a terminal: <code>${command}</code> <button type="button" class="quiet" @click=${(event: Event) => void copy(event.currentTarget as HTMLElement, command)}>Copy</button></p>` : nothing}
      ${each.fixable && !each.endsGateway ? html`<button type="button" @click=${() => void this.repair(each)}>Repair…</button>` : nothing}
    </li>`;
  }
}
customElements.define("oc-doctor", Doctor);

// What `openclaw security audit` finds: dangerous settings and files, each with its reason.
class Audit extends Doctor {
  protected check = "security.audit";
  protected mend = "security.audit.repair";
  protected fine = "Nothing here is dangerous.";
}
customElements.define("oc-audit", Audit);
