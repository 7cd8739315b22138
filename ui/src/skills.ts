// What the assistant can do by file, whether it may, what is missing, and what changed since it was accepted.

import { html, nothing } from "lit";
import { diffView, unified } from "./diff-view.js";
import { gateway, type Json } from "./gateway.js";
import { Page } from "./page.js";
import { oneLine, visible } from "./text.js";

const TRUST: Record<string, string> = { trusted: "accepted", new: "new", changed: "changed", blocked: "held back" };

class Skills extends Page {
  static properties = { skills: { state: true }, search: { state: true }, open: { state: true }, shown: { state: true } };
  declare skills: Json[] | undefined;
  declare search: string;
  declare open: string;
  declare shown: Json;

  constructor() {
    super();
    this.search = "";
    this.open = "";
  }

  connectedCallback(): void {
    super.connectedCallback();
    this.hear("config.changed", () => void this.refresh());
  }

  protected async load(): Promise<void> {
    this.skills = (await gateway.call("skills.status", {})).skills;
  }

  private async look(name: string): Promise<void> {
    this.open = this.open === name ? "" : name;
    this.shown = undefined;
    if (this.open) {
      await this.attempt(async () => {
        this.shown = await gateway.call("skills.trust.show", { name });
      });
    }
  }

  private async decide(decision: "accept" | "refuse"): Promise<void> {
    const { name, treeSha256 } = this.shown;
    await this.attempt(
      async () => {
        await gateway.call("skills.trust.set", { name, decision, treeSha256 });
        await this.load();
        this.shown = await gateway.call("skills.trust.show", { name });
      },
      decision === "accept" ? `${oneLine(name, 60)} is accepted as it is now.` : `${oneLine(name, 60)} is held back.`,
    );
  }

  private async turn(skill: Json): Promise<void> {
    await this.attempt(
      () => gateway.call("skills.update", { skillKey: skill.skillKey, enabled: skill.disabled }),
      `${oneLine(skill.name, 60)} is switched ${skill.disabled ? "on" : "off"}.`,
    );
  }

  render() {
    const wanted = this.search.trim().toLowerCase();
    const rank = (skill: Json) => (["changed", "new", "blocked"].includes(skill.trust) ? 0 : 1);
    const shown = (this.skills ?? [])
      .filter((each) => !wanted || `${each.name} ${each.description}`.toLowerCase().includes(wanted))
      .toSorted((one, other) => rank(one) - rank(other));
    return this.frame(
      "Skills",
      html`${shown.map((each) => this.card(each))}
        ${this.skills && !shown.length ? html`<p class="empty">${wanted ? "No skill is called that." : "There are no skills here."}</p>` : nothing}`,
      html`<input type="search" aria-label="Search skills" placeholder="Search" @input=${(event: Event) => (this.search = (event.target as HTMLInputElement).value)} />`,
    );
  }

  private card(skill: Json) {
    const open = this.open === skill.name;
    const why = reason(skill);
    return html`<article class="skill" data-skill=${skill.name}>
      <header>
        <h3>${skill.emoji ? html`<span aria-hidden="true">${oneLine(skill.emoji, 4)}</span> ` : nothing}${oneLine(skill.name)}</h3>
        <span class="badge ${skill.eligible ? "good" : "idle"}">${skill.eligible ? "usable" : "not usable"}</span>
        <span class="badge ${skill.trust === "trusted" ? "" : "alert"}">${TRUST[skill.trust] ?? skill.trust}</span>
        <span class="hint">${skill.source.replace("openclaw-", "")}</span>
        <button type="button" class="quiet" aria-expanded=${open} aria-label="Look at ${oneLine(skill.name, 40)}" @click=${() => void this.look(skill.name)}>${open ? "Close" : "Look"}</button>
      </header>
      <p>${oneLine(skill.description ?? "", 400)}</p>
      ${why ? html`<p class="hint">${why}</p>` : nothing}
      ${open ? this.details(skill) : nothing}
    </article>`;
  }

  private details(skill: Json) {
    const { shown } = this;
    if (!shown) return html`<p class="hint">Loading…</p>`;
    return html`<div class="trust">
      <p class="hint">${visible(skill.filePath)}</p>
      ${shown.why && shown.trust !== "changed" ? html`<p>${visible(shown.why)}</p>` : nothing}
      ${shown.findings.map((each: Json) => html`<p class=${each.severity === "critical" ? "problem" : "hint"}>${each.severity}: ${visible(each.message)} <span class="hint">${visible(each.file)}, line ${each.line}</span></p>`)}
      ${shown.diff.length
        ? html`<p>${shown.known ? "Changed since it was accepted:" : "It was never accepted, so all of it is new:"}</p>
            ${diffView(skill.name, unified(shown.diff))} ${shown.cut ? html`<p class="hint">There is more than can be shown here: openclaw skills diff ${skill.name}</p>` : nothing}`
        : skill.bundled
          ? html`<p class="hint">It comes with OpenClaw and is as it was shipped.</p>`
          : html`<p class="hint">It is as it was accepted.</p>`}
      <div class="buttons">
        ${skill.bundled || (shown.trust === "trusted" && !shown.diff.length) ? nothing : html`<button type="button" class="primary" @click=${() => void this.decide("accept")}>Accept it as it is</button>`}
        ${skill.bundled || shown.trust === "blocked" ? nothing : html`<button type="button" @click=${() => void this.decide("refuse")}>Hold it back</button>`}
        <button type="button" @click=${() => void this.turn(skill)}>${skill.disabled ? "Switch on" : "Switch off"}</button>
      </div>
    </div>`;
  }
}
customElements.define("oc-skills", Skills);

/** Why a skill cannot be used. */
function reason(skill: Json): string {
  if (skill.eligible) return "";
  const missing = Object.entries<Json>(skill.missing ?? {}).filter(([, names]) => Array.isArray(names) && names.length);
  if (skill.disabled) return "It is switched off.";
  if (skill.blockedByAllowlist || skill.blockedByAgentFilter) return "It is not on the list of allowed skills.";
  if (missing.length) return `It lacks ${missing.map(([kind, names]) => `${kind}: ${names.join(", ")}`).join("; ")}.`;
  return skill.trust === "trusted" ? "" : "Look at it and accept it first.";
}
