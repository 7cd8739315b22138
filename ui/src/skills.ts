// What the assistant can do by file, whether it may, and what is missing.

import { html, nothing } from "lit";
import { gateway, type Json } from "./gateway.js";
import { Page } from "./page.js";
import { oneLine } from "./text.js";

class Skills extends Page {
  static properties = { skills: { state: true } };
  declare skills: Json[] | undefined;

  protected async load(): Promise<void> {
    this.skills = (await gateway.call("skills.status", {})).skills;
  }

  render() {
    return this.frame(
      "Skills",
      html`<div class="scroller">
          <table>
            <thead><tr><th>Skill</th><th>Usable</th><th>Trust</th><th>From</th></tr></thead>
            <tbody>${(this.skills ?? []).map(row)}</tbody>
          </table>
        </div>
        ${this.skills?.length === 0 ? html`<p class="empty">There are no skills here.</p>` : nothing}`,
    );
  }
}
customElements.define("oc-skills", Skills);

function row(skill: Json) {
  const missing = Object.entries<Json>(skill.missing ?? {}).filter(([, names]) => Array.isArray(names) && names.length);
  const lacks = missing.map(([kind, names]) => `${kind}: ${names.join(", ")}`).join("; ");
  const why = skill.disabled ? "switched off" : skill.blockedByAllowlist ? "not on the list of allowed skills" : lacks && `missing ${lacks}`;
  return html`<tr>
    <td>${skill.emoji ? `${oneLine(skill.emoji, 4)} ` : ""}<b>${oneLine(skill.name)}</b><small>${oneLine(skill.description ?? "", 300)}</small></td>
    <td>${skill.eligible ? html`<span class="good">yes</span>` : html`no<small>${why}</small>`}</td>
    <td>${skill.trust}</td>
    <td>${skill.source}</td>
  </tr>`;
}
