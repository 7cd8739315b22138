// A conversation as the page knows it: rows that are recorded, what streams in, what waits to be recorded.
// Rows are known by the id the gateway gave them, so that hearing of one twice shows it once.

import type { Json } from "./gateway.js";

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

export interface Pending {
  runId: string;
  text: string;
  images: string[];
  at: number;
  problem?: string;
}

export interface Live {
  runId: string;
  text: string;
  thinking: string;
  note: string;
}

export interface Said {
  after: number;
  asked: string;
  text: string;
}

export class Talk {
  key = "";
  rows: Row[] = [];
  results = new Map<string, Row>();
  tools = new Map<string, Tool>();
  pending: Pending[] = [];
  live: Live | undefined;
  said: Said[] = [];
  problem = "";
  more = false;
  loaded = false;
  private offset = 0;
  private ended = new Set<string>();

  /** Starts from what the gateway has on record. */
  load(history: Json): void {
    this.key = history.sessionKey;
    this.rows = [];
    this.results.clear();
    this.tools.clear();
    this.offset = 0;
    this.problem = "";
    this.page(history);
    const running = history.inFlightRun;
    this.live = running ? { runId: running.runId, text: this.unrecorded(running.text ?? ""), thinking: "", note: "" } : undefined;
    this.loaded = true;
  }

  /** Adds an older page in front. */
  page(history: Json): void {
    for (const message of history.messages) this.add(message);
    this.offset = history.nextOffset ?? this.offset;
    this.more = Boolean(history.hasMore);
  }

  get nextOffset(): number {
    return this.offset;
  }

  add(message: Json): void {
    const about = message.__openclaw ?? {};
    const row: Row = { id: about.id ?? `${message.timestamp}`, seq: about.seq ?? 0, role: message.role, message };
    if (message.role === "toolResult") this.results.set(message.toolCallId, row);
    const at = this.rows.findIndex((each) => each.id === row.id);
    if (at >= 0) this.rows[at] = row;
    else {
      let place = this.rows.length;
      while (place > 0 && this.rows[place - 1]!.seq > row.seq) place--;
      this.rows.splice(place, 0, row);
    }
    const key = String(message.idempotencyKey ?? about.idempotencyKey ?? "");
    if (key) this.pending = this.pending.filter((each) => key !== `${each.runId}:user`);
  }

  /** A message was recorded while we listen. */
  recorded(payload: Json): void {
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
        this.live = { ...live, text: "", thinking: "", note: `${data.provider}/${data.model}: ${data.error}` };
      } else if (data.phase === "model") this.live = { ...live, note: "" };
    } else if (stream === "assistant") {
      const live = this.begin(runId);
      this.live = { ...live, text: live.text + data.delta, note: "" };
    } else if (stream === "thinking") this.live = { ...this.begin(runId), thinking: data.text };
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
    if (waiting && state === "final" && payload.message) {
      // Nothing was recorded: the gateway itself answered a command.
      this.pending = this.pending.filter((each) => each !== waiting);
      this.said.push({ after: this.rows.at(-1)?.seq ?? 0, asked: waiting.text, text: textOf(payload.message) });
    }
    if (waiting && state === "aborted") waiting.problem = "stopped before it was read";
    if (this.live?.runId === runId) this.live = undefined;
    this.problem = state === "error" ? String(payload.errorMessage ?? "the run failed") : "";
    for (const tool of this.tools.values()) tool.done = true;
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
