// Where people talk to the assistant: accounts and how they do, who asks to be heard, what is held.

import { html, nothing } from "lit";
import { gateway, type Json } from "./gateway.js";
import { ask, Page } from "./page.js";
import { ago, oneLine } from "./text.js";

const EVERY = 3000;

class Channels extends Page {
  static properties = { status: { state: true }, kinds: { state: true }, people: { state: true }, held: { state: true }, form: { state: true }, busy: { state: true } };
  declare status: Json;
  declare kinds: Json[];
  declare people: Json;
  declare held: Json[];
  /** The channel that is being connected, and the account when it is one that is there. */
  declare form: { kind: Json; account?: string } | undefined;
  declare busy: boolean;
  private timer = 0;
  private probes: Record<string, Json> = {};

  constructor() {
    super();
    this.kinds = [];
    this.held = [];
    this.busy = false;
  }

  connectedCallback(): void {
    super.connectedCallback();
    this.timer = window.setInterval(() => {
      if (gateway.state === "ready" && document.visibilityState === "visible") void this.refresh();
    }, EVERY);
  }

  disconnectedCallback(): void {
    super.disconnectedCallback();
    clearInterval(this.timer);
  }

  protected async load(): Promise<void> {
    [this.status, this.people, { messages: this.held }, { channels: this.kinds }] = await Promise.all([
      gateway.call("channels.status", {}),
      gateway.call("channels.pairing.list", {}),
      gateway.call("channels.held", {}),
      gateway.call("channels.available", {}),
    ]);
  }

  private async act(work: () => Promise<unknown>, told = ""): Promise<void> {
    this.busy = true;
    await this.attempt(async () => {
      await work();
      await this.load();
    }, told);
    this.busy = false;
  }

  private async connect(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    const { kind, account } = this.form!;
    const given = Object.fromEntries([...new FormData(event.target as HTMLFormElement)].map(([key, value]) => [key, String(value).trim()]).filter(([, value]) => value));
    let told = "";
    await this.act(async () => {
      const added = await gateway.call("channels.add", { channel: kind.channel, ...(account ? { accountId: account } : {}), ...given });
      told = `${kind.label}: this is ${added.probe?.name || added.probe?.id || "connected"}. ${added.next}`;
      this.form = undefined;
    });
    if (told) this.told = told;
  }

  private async check(account: Json): Promise<void> {
    await this.act(async () => {
      const found = await gateway.call("channels.status", { channel: account.channel, probe: true });
      for (const each of found.channelAccounts[account.channel] ?? []) this.probes[`${account.channel}:${each.accountId}`] = each.probe;
    });
  }

  private async disconnect(account: Json): Promise<void> {
    if ((await ask(`Disconnect ${account.label}? Its credential is forgotten here; its other settings stay.`, { yes: "Disconnect" })) === null) return;
    await this.act(() => gateway.call("channels.logout", where(account)), "Disconnected.");
  }

  private async discard(account: Json): Promise<void> {
    if ((await ask(`Remove ${account.label} with all its settings?`, { yes: "Remove" })) === null) return;
    await this.act(() => gateway.call("channels.remove", { ...where(account), delete: true }), "Removed.");
  }

  private letIn(each: Json, owner: boolean): Promise<void> {
    const params = { channel: each.channel, accountId: each.accountId, requestId: each.requestId, notify: true, ...(owner ? { bootstrapCommandOwner: true } : {}) };
    return this.act(() => gateway.call("channels.pairing.approve", params), `${oneLine(each.senderLabel, 60)} is heard from now on.`);
  }

  private async drop(each: Json): Promise<void> {
    if ((await ask("Drop this message? It is not sent any more.", { yes: "Drop" })) === null) return;
    await this.act(() => gateway.call("channels.drop", { id: each.id }), "Dropped.");
  }

  render() {
    const { status } = this;
    if (!status) return this.frame("Channels", this.problem ? nothing : html`<p class="empty">Loading…</p>`);
    const accounts: Json[] = status.channelOrder.flatMap((channel: string) => status.channelAccounts[channel].map((each: Json) => ({ ...each, channel, label: name(status, channel, each) })));
    return this.frame(
      "Channels",
      html`${this.people.requests.map((each: Json) => this.request(each))} ${this.form?.account ? this.connecting() : nothing}
        ${accounts.map((each) => this.account(each))}
        ${accounts.length || this.form ? nothing : html`<p class="empty">Nobody can write to the assistant yet, except here. Connect a channel, and talk to it where you talk to people.</p>`}
        ${this.held.length ? this.waiting() : nothing}
        <h2>Connect ${accounts.length ? "another" : "one"}</h2>
        <div class="choices" role="group" aria-label="Channels">
          ${this.kinds.map((kind) => html`<button type="button" aria-label="Connect ${kind.label}" @click=${() => (this.form = { kind })}>${kind.label}</button>`)}
        </div>
        ${this.form && !this.form.account ? this.connecting() : nothing}`,
    );
  }

  private request(each: Json) {
    const owner = !this.people.commandOwnerConfigured;
    return html`<section class="approval" data-request=${each.senderId}>
      <h3>${oneLine(each.senderLabel, 60)} asks to be heard on ${each.channelLabel}</h3>
      <p class="hint">${oneLine(each.senderId, 60)}, ${ago(Date.parse(each.createdAt))}, code ${each.requestId}</p>
      ${owner ? html`<p>Nobody is known as the owner yet. The owner commands the assistant; everybody else is a guest.</p>` : nothing}
      <div class="buttons">
        <button type="button" ?disabled=${this.busy} @click=${() => void this.act(() => gateway.call("channels.pairing.dismiss", { channel: each.channel, accountId: each.accountId, requestId: each.requestId }), "Declined.")}>Decline</button>
        <button type="button" class=${owner ? "" : "primary"} ?disabled=${this.busy} @click=${() => void this.letIn(each, false)}>Let in${owner ? " as a guest" : ""}</button>
        ${owner ? html`<button type="button" class="primary" ?disabled=${this.busy} @click=${() => void this.letIn(each, true)}>This is me</button>` : nothing}
      </div>
    </section>`;
  }

  private connecting() {
    const { kind, account } = this.form!;
    const taken = this.status.channelAccounts[kind.channel]?.some((each: Json) => each.configured);
    return html`<form class="job" @submit=${(event: SubmitEvent) => void this.connect(event)}>
      <h3>Connect ${kind.label}${account && account !== "default" ? ` (${account})` : ""}</h3>
      <p>${kind.first}</p>
      ${taken && !account ? html`<label>Name of this account <input name="accountId" required pattern="[a-z0-9][a-z0-9_\\-]*" autocomplete="off" /><small>One is there already. Small letters, digits, - and _.</small></label>` : nothing}
      ${kind.fields
        .filter((field: Json) => field.asked)
        .map((field: Json) => html`<label>${field.label} <input name=${field.key} type=${field.secret ? "password" : "text"} autocomplete="off" spellcheck="false" ?required=${!field.optional} />${field.hint ? html`<small>${field.hint}</small>` : nothing}</label>`)}
      <div class="buttons">
        <button type="button" @click=${() => (this.form = undefined)}>Cancel</button>
        <button class="primary" ?disabled=${this.busy}>${this.busy ? "Trying…" : "Connect"}</button>
      </div>
    </form>`;
  }

  private account(each: Json) {
    const { outbox } = each;
    const probe = this.probes[`${each.channel}:${each.accountId}`];
    const counts = [[outbox.waiting, "waiting"], [outbox.held, "held"], [outbox.refused, "refused"], [outbox.doubled, "possibly doubled"]];
    const facts = [
      each.lastInboundAt ? `heard ${ago(each.lastInboundAt)}` : "",
      each.lastOutboundAt ? `sent ${ago(each.lastOutboundAt)}` : "",
      ...counts.filter(([count]) => count).map(([count, what]) => `${count} ${what}`),
    ].filter(Boolean);
    const issues = this.status.statusIssues.filter((issue: Json) => issue.channel === each.channel && issue.accountId === each.accountId);
    const kind = this.kinds.find((one) => one.channel === each.channel);
    const act = (label: string, work: () => unknown) => html`<button type="button" ?disabled=${this.busy} @click=${() => void work()}>${label}</button>`;
    return html`<section class="skill" data-account="${each.channel}:${each.accountId}">
      <header><h3>${each.label}</h3><span class="badge ${each.connected ? "good" : each.healthState === "closed" ? "alert" : ""}">${each.healthState}</span></header>
      ${facts.length ? html`<p class="hint">${facts.join(" · ")}</p>` : nothing}
      ${probe ? (probe.ok ? html`<p class="good">The platform says: this is ${oneLine(probe.name || probe.id, 60)}.</p>` : html`<p class="problem">${oneLine(probe.error, 300)}</p>`) : nothing}
      ${each.lastError && !each.connected && !issues.length ? html`<p class="hint">${oneLine(each.lastError, 300)}</p>` : nothing}
      ${issues.map((issue: Json) => html`<p class="problem">${oneLine(issue.message, 300)}</p>`)}
      <div class="buttons">
        ${each.configured
          ? html`${act("Check", () => this.check(each))} ${each.healthState === "stopped" || each.healthState === "closed" ? act("Start", () => this.act(() => gateway.call("channels.start", where(each)), "Started.")) : each.running ? act("Stop", () => this.act(() => gateway.call("channels.stop", where(each)), "Stopped until it is started again, or the gateway is.")) : nothing} ${kind ? html`${act("New credential", () => (this.form = { kind, account: each.accountId }))} ${act("Disconnect", () => this.disconnect(each))}` : nothing}`
          : html`${kind ? act("Connect", () => (this.form = { kind, account: each.accountId })) : nothing} ${act("Remove", () => this.discard(each))}`}
      </div>
    </section>`;
  }

  private waiting() {
    return html`<h2>Held messages</h2>
      <p class="hint">Nobody knows whether these arrived, or the platform refused them. Sent again, one may arrive twice.</p>
      <div class="scroller"><table>
        <thead><tr><th>To</th><th>Message</th><th>Why</th><th><span class="away">Actions</span></th></tr></thead>
        <tbody>${this.held.map((each) => html`<tr data-held=${each.number}>
          <td>${oneLine(`${each.channel}:${each.to}`, 60)}<small>${ago(each.updatedAt)}</small></td>
          <td>${oneLine(each.message, 200) || `${each.media} files`}</td>
          <td>${each.state}<small>${oneLine(each.error, 200)}</small></td>
          <td class="buttons"><button type="button" ?disabled=${this.busy} @click=${() => void this.act(() => gateway.call("channels.release", { id: each.id }), "It is sent now.")}>Send</button> <button type="button" ?disabled=${this.busy} @click=${() => void this.drop(each)}>Drop</button></td>
        </tr>`)}</tbody>
      </table></div>`;
  }
}
customElements.define("oc-channels", Channels);

function name(status: Json, channel: string, account: Json): string {
  const own = account.name === account.accountId ? "" : account.name;
  return `${status.channelLabels[channel]}${own ? ` · ${oneLine(own, 40)}` : ""}${account.accountId === "default" ? "" : ` (${account.accountId})`}`;
}

function where(account: Json): Json {
  return { channel: account.channel, accountId: account.accountId };
}
