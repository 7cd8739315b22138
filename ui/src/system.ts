// How the gateway is, which models it has, and which devices may come in.

import { html, nothing } from "lit";
import "./doctor.js";
import { gateway, type Json } from "./gateway.js";
import { ask, Page } from "./page.js";
import { ago, bytes, oneLine, tokens } from "./text.js";

class System extends Page {
  static properties = { health: { state: true }, info: { state: true }, status: { state: true }, models: { state: true }, devices: { state: true } };
  declare health: Json;
  declare info: Json;
  declare status: Json;
  declare models: Json[];
  declare devices: Json;

  constructor() {
    super();
    this.models = [];
  }

  connectedCallback(): void {
    super.connectedCallback();
    for (const name of ["device.pair.requested", "device.pair.resolved"]) this.hear(name, () => void this.refresh());
  }

  protected async load(): Promise<void> {
    [this.health, this.info, this.status, { models: this.models }, this.devices] = await Promise.all([
      gateway.call("health"),
      gateway.call("system.info"),
      gateway.call("status"),
      gateway.call("models.list", {}),
      gateway.call("device.pair.list"),
    ]);
  }

  private async decide(method: string, requestId: string): Promise<void> {
    await this.attempt(async () => {
      await gateway.call(method, { requestId });
      await this.load();
    });
  }

  private async expel(device: Json): Promise<void> {
    const name = oneLine(device.label ?? device.displayName ?? device.deviceId, 40);
    if ((await ask(`Take access away from ${name}? It must be approved again to come back.`, { yes: "Remove" })) === null) return;
    await this.attempt(async () => {
      await gateway.call("device.pair.remove", { deviceId: device.deviceId });
      await this.load();
    });
  }

  private async rename(device: Json): Promise<void> {
    const label = await ask("Call this device", { value: device.label ?? device.displayName ?? "", input: true, yes: "Rename" });
    if (!label?.trim()) return;
    await this.attempt(async () => {
      await gateway.call("device.pair.rename", { deviceId: device.deviceId, label: label.trim() });
      await this.load();
    });
  }

  render() {
    if (!this.health) return this.frame("System", this.problem ? nothing : html`<p class="empty">Loading…</p>`);
    const { info, status } = this;
    const facts: [string, string][] = [
      ["Version", status.runtimeVersion],
      ["Running since", new Date(Date.now() - info.uptimeMs).toLocaleString([], { dateStyle: "medium", timeStyle: "short" })],
      ["Machine", `${info.hostname} (${info.osLabel}, ${info.arch})`],
      ["Memory", bytes(status.processMemory?.rssBytes)],
      ["Conversations", String(this.health.sessions.count)],
      ["Runs now", String(this.health.running)],
      ["Configuration", this.health.configReload?.hotReloadStatus ?? ""],
    ];
    return this.frame(
      "System",
      html`<h2>Health</h2>
        <oc-doctor></oc-doctor>
        <dl>${facts.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>
        <h2>Devices</h2>
        ${this.devices.pending.map((each: Json) => this.request(each))}
        <div class="scroller"><table>
          <thead><tr><th>Device</th><th>Platform</th><th>Scopes</th><th><span class="away">Actions</span></th></tr></thead>
          <tbody>${this.devices.paired.map((each: Json) => this.device(each))}</tbody>
        </table></div>
        <h2>Models</h2>
        <div class="scroller"><table>
          <thead><tr><th>Model</th><th>Reads</th><th class="number">Window</th><th><span class="away">Tags</span></th></tr></thead>
          <tbody>${this.models.map((each) => html`<tr><td>${oneLine(`${each.provider}/${each.id}`)}</td><td>${each.input.join(", ")}</td><td class="number">${tokens(each.contextWindow)}</td><td>${each.tags.join(", ")}</td></tr>`)}</tbody>
        </table></div>`,
      html`<button type="button" @click=${() => void this.attempt(() => this.load())}>Refresh</button>`,
    );
  }

  private request(each: Json) {
    return html`<section class="approval">
      <h3>May this device come in?</h3>
      <p>${oneLine(each.displayName || each.clientId)} on ${oneLine(each.platform ?? "")} from ${each.remoteIp}</p>
      <p class="hint">${each.deviceId.slice(0, 16)}… asks for ${each.scopes.join(", ")}</p>
      <div class="buttons">
        <button type="button" @click=${() => void this.decide("device.pair.reject", each.requestId)}>Reject</button>
        <button type="button" class="primary" @click=${() => void this.decide("device.pair.approve", each.requestId)}>Approve</button>
      </div>
    </section>`;
  }

  private device(each: Json) {
    return html`<tr>
      <td>${oneLine(each.label ?? each.displayName ?? each.clientId ?? "")}<small>${each.deviceId.slice(0, 16)}…</small></td>
      <td>${oneLine(each.platform ?? "")}</td>
      <td>${(each.scopes ?? each.approvedScopes ?? []).map((scope: string) => scope.replace("operator.", "")).join(", ")}</td>
      <td><button type="button" class="quiet" @click=${() => void this.rename(each)}>Rename</button> <button type="button" class="quiet" @click=${() => void this.expel(each)}>Remove</button></td>
    </tr>`;
  }
}
customElements.define("oc-system", System);
