// A conversation as the page knows it: rows that are recorded, what streams in, what waits to be recorded.
// Rows are known by the id the gateway gave them, so that hearing of one twice shows it once.

import type { Json } from "./gateway.js";
import { steps, type Step } from "./plan.js";

export interface Row {
  id: string;
  seq: number;
  role: "user" | "assistant" | "toolResult" | string;
  message: Json;
}

export interface Tool {
  name: string;
  args: Json;
  output: string;
  done: boolean;
  failed: boolean;
}

export interface Attached {
  name: string;
  kind: string;
  /** A data URL. */
  content: string;
}

export interface Pending {
  runId: string;
  text: string;
  attached: Attached[];
  at: number;
  problem?: string;
  /** Somebody else said it: another tab, another program. */
  foreign?: boolean;
}

export interface Live {
  runId: string;
  text: string;
  thinking: string;
  note: string;
  /** How often the model was asked in vain. */
  failed?: number;
}

export interface Said {
  after: number;
  asked: string;
  text: string;
}

export class Talk {
  key = "";
  session = "";
  rows: Row[] = [];
  results = new Map<string, Row>();
  tools = new Map<string, Tool>();
  pending: Pending[] = [];
  live: Live | undefined;
  said: Said[] = [];
  problem = "";
  more = false;
  loaded = false;
  private known = new Map<string, Row>();
  private ended = new Set<string>();
  /** Recorded while a page of history is on its way, which may not have it yet. */
  private meanwhile: Json[] = [];

  /** History is asked for: what is recorded from now on may not be in it. */
  asking(): void {
    this.meanwhile = [];
  }

  /** Forgets a message and all that came after it: it was taken back. */
  cut(id: string): void {
    const from = this.known.get(id)?.seq;
    if (from === undefined) return;
    const gone = this.rows.filter((row) => row.seq >= from);
    this.rows = this.rows.filter((row) => row.seq < from);
    for (const row of gone) this.known.delete(row.id);
  }

  /** Starts from what the gateway has on record; what is older and was loaded before stays, unless all is new. */
  load(history: Json, anew: boolean): void {
    const first = history.messages[0]?.__openclaw?.seq ?? 0;
    const follows = first > 0 && first <= (this.rows.at(-1)?.seq ?? -1) + 1 && first >= (this.rows[0]?.seq ?? 0);
    const older = !anew && follows && history.sessionId === this.session ? this.rows.filter((row) => row.seq < first) : [];
    const more = older.length > 0 && this.more;
    this.key = history.sessionKey;
    this.session = history.sessionId;
    this.rows = [];
    this.known.clear();
    this.results.clear();
    this.tools.clear();
    this.problem = "";
    for (const row of older) this.add(row.message);
    this.page(history);
    for (const message of this.meanwhile) this.add(message);
    this.meanwhile = [];
    if (older.length) this.more = more;
    const running = history.inFlightRun;
    this.live = running ? { runId: running.runId, text: this.unrecorded(running.text ?? ""), thinking: "", note: "" } : undefined;
    this.queued(history.pendingInputs);
    this.loaded = true;
  }

  /** Adds a page of messages that are on record. */
  page(history: Json): void {
    for (const message of history.messages) this.add(message);
    this.more = Boolean(history.hasMore);
  }

  /** What others have said and nobody has read yet. */
  queued(inputs: Json): void {
    const own = this.pending.filter((each) => !each.foreign);
    const others: Pending[] = (inputs?.items ?? [])
      .filter((item: Json) => !own.some((each) => each.runId === item.runId))
      .map((item: Json) => ({ runId: item.runId, text: textOf(item.message), attached: [], at: item.acceptedAt, foreign: true }));
    this.pending = [...own, ...others].sort((one, other) => one.at - other.at);
  }

  /** Where the page before the first row starts, counted from the newest message. */
  get nextOffset(): number {
    return this.rows.length ? this.rows.at(-1)!.seq - this.rows[0]!.seq + 1 : 0;
  }

  add(message: Json): void {
    const about = message.__openclaw ?? {};
    const row: Row = { id: about.id ?? `${message.timestamp}`, seq: about.seq ?? 0, role: message.role, message };
    if (message.role === "toolResult") this.results.set(message.toolCallId, row);
    if (this.known.has(row.id)) this.rows[this.rows.indexOf(this.known.get(row.id)!)] = row;
    else {
      let place = this.rows.length;
      while (place > 0 && this.rows[place - 1]!.seq > row.seq) place--;
      this.rows.splice(place, 0, row);
    }
    this.known.set(row.id, row);
    const key = String(message.idempotencyKey ?? about.idempotencyKey ?? "");
    if (key) this.pending = this.pending.filter((each) => key !== `${each.runId}:user`);
  }

  has(id: string): boolean {
    return this.known.has(id);
  }

  /** The plan as it stands, from the newest call that was not refused. */
  get plan(): Step[] | undefined {
    for (const tool of [...this.tools.values()].reverse()) {
      if (tool.name === "update_plan" && !tool.failed && steps(tool.args)) return steps(tool.args);
    }
    for (const row of this.rows.toReversed()) {
      if (row.role !== "assistant" || !Array.isArray(row.message.content)) continue;
      for (const block of row.message.content.toReversed()) {
        if (block.type !== "toolCall" || block.name !== "update_plan" || this.results.get(block.id)?.message.isError) continue;
        return steps(block.arguments);
      }
    }
    return undefined;
  }

  /** A message was recorded while we listen. */
  recorded(payload: Json): void {
    this.meanwhile.push(payload.message);
    this.add(payload.message);
    if (payload.message.role === "assistant" && this.live?.runId === payload.runId) {
      this.live = { ...this.live!, text: "", thinking: "" };
    }
  }

  agent(payload: Json): void {
    const { runId, stream, data } = payload;
    if (this.ended.has(runId)) return;
    if (stream === "lifecycle") {
      if (data.phase === "end" || data.phase === "error") return;
      const live = this.begin(runId);
      if (data.phase === "fallback_step") {
        const failed = (live.failed ?? 0) + 1;
        const again = data.retryInMs ? ` Trying again in ${Math.ceil(data.retryInMs / 1000)} s (attempt ${failed + 1}).` : "";
        this.live = { ...live, text: "", thinking: "", failed, note: `${data.provider}/${data.model}: ${data.error}${again}` };
      } else if (data.phase === "model") this.live = { ...live, note: "" };
    } else if (stream === "assistant") {
      const live = this.begin(runId);
      this.live = { ...live, text: live.text + data.delta, note: "" };
    } else if (stream === "thinking") this.live = { ...this.begin(runId), thinking: data.text };
    else if (stream === "compaction") this.live = { ...this.begin(runId), note: data.phase === "start" ? "summarising what was said before" : "" };
    else if (stream === "tool") this.tool(data);
  }

  chat(payload: Json): void {
    const { runId, state } = payload;
    if (state === "delta") {
      this.begin(runId);
      return;
    }
    if (!["final", "aborted", "error"].includes(state)) return;
    this.ended.add(runId);
    const waiting = this.pending.find((each) => each.runId === runId);
    if (waiting && state === "final") this.pending = this.pending.filter((each) => each !== waiting);
    if (waiting?.text.startsWith("/") && state === "final" && payload.message) {
      // Nothing was recorded: the gateway itself answered a command. Anything else is on record with what it was put together with.
      this.said.push({ after: this.rows.at(-1)?.seq ?? 0, asked: waiting.text, text: textOf(payload.message) });
    }
    if (waiting?.foreign) this.pending = this.pending.filter((each) => each !== waiting);
    else if (waiting && state === "aborted") waiting.problem = "stopped before it was read";
    if (payload.notices) this.noted(runId, payload.notices);
    if (this.live?.runId === runId) this.live = undefined;
    this.problem = state === "error" ? String(payload.errorMessage ?? "the run failed") : "";
    for (const tool of this.tools.values()) tool.done = true;
  }

  /** What a run had to say beside its answer stands with its last message, as it does when the page is loaded again. */
  private noted(runId: string, notices: string[]): void {
    const last = this.rows.findLast((row) => row.message.__openclaw?.runId === runId);
    if (last) last.message = { ...last.message, __openclaw: { ...last.message.__openclaw, notices } };
  }

  private begin(runId: string): Live {
    if (this.live?.runId !== runId && !this.ended.has(runId)) {
      this.problem = "";
      this.live = { runId, text: "", thinking: "", note: "" };
    }
    return this.live ?? { runId, text: "", thinking: "", note: "" };
  }

  private tool(data: Json): void {
    const id = String(data.toolCallId);
    const known = this.tools.get(id) ?? { name: data.name, args: {}, output: "", done: false, failed: false };
    if (data.phase === "start") this.tools.set(id, { ...known, args: data.args });
    else if (data.phase === "update") this.tools.set(id, { ...known, output: textOf(data.partialResult) });
    else if (data.phase === "result") {
      this.tools.set(id, { ...known, output: textOf(data.result), done: true, failed: Boolean(data.isError) });
    }
  }

  /** The part of a run's text so far that is in no row yet. */
  private unrecorded(text: string): string {
    const last = this.rows.findLastIndex((row) => row.role === "user");
    for (const row of this.rows.slice(last + 1)) {
      const said = row.role === "assistant" ? textOf(row.message) : "";
      if (said && text.startsWith(said)) text = text.slice(said.length);
    }
    return text;
  }
}

/** The text of a message or a result. */
export function textOf(message: Json): string {
  const content = message?.content;
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content
    .filter((block: Json) => block.type === "text")
    .map((block: Json) => block.text)
    .join("");
}
