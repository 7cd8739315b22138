// Text as people should see it.

import type { Json } from "./gateway.js";

const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** `text` with what hides or reorders characters spelled out: a command must look like what it does. */
export function visible(text: string): string {
  return text.replace(HIDDEN, (char) => `⟨U+${char.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

/** A name as one harmless line. */
export function oneLine(text: string, most = 120): string {
  const line = text.replace(HIDDEN, "").replace(/\s+/g, " ").trim();
  return line.length > most ? `${line.slice(0, most - 1)}…` : line;
}

/** The model of a conversation, and what carries out its turns where that is not our own loop. */
export function modelOf(row: Json): string {
  const runtime: Json = row.agentRuntime ?? {};
  if (runtime.id === "acp") return `${oneLine(runtime.agent ?? "external agent", 40)} (ACP)`;
  return [oneLine(row.model ?? "", 40), runtime.id === "codex" ? "Codex" : ""].filter(Boolean).join(" · ");
}

export function ago(at: number, now = Date.now()): string {
  const seconds = Math.max(0, (now - at) / 1000);
  if (seconds < 60) return "just now";
  for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]] as const) {
    if (seconds >= size) return `${Math.floor(seconds / size)} ${unit} ago`;
  }
  return "";
}

export function clock(at: number): string {
  return new Date(at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}

export function tokens(count: number | undefined): string {
  if (!count) return "0";
  return count >= 1e6 ? `${(count / 1e6).toFixed(1)}M` : count >= 1000 ? `${(count / 1000).toFixed(1)}k` : String(count);
}

export function dollars(amount: number | null | undefined): string {
  return amount == null ? "" : `$${amount < 1 ? amount.toFixed(4) : amount.toFixed(2)}`;
}

export function bytes(count: number | undefined): string {
  if (count == null) return "";
  return count >= 1 << 20 ? `${(count / (1 << 20)).toFixed(1)} MB` : count >= 1024 ? `${(count / 1024).toFixed(1)} kB` : `${count} B`;
}

export function save(name: string, kind: string, text: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: kind }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/** The common cron expressions in words, the others as they are. */
function calendar(expr: string): string {
  const found = /^(\d{1,2}) (\d{1,2}) \* \* (\*|1-5|[0-6](?:,[0-6])*)$/.exec(expr);
  if (!found) return expr;
  const days = found[3] === "*" ? "day" : found[3] === "1-5" ? "weekday" : found[3]!.split(",").map((day) => DAYS[Number(day)]).join(" and ");
  return `every ${days} at ${found[2]!.padStart(2, "0")}:${found[1]!.padStart(2, "0")}`;
}

/** A job's schedule in words. */
export function whenText(schedule: { kind: string; expr?: string; tz?: string; everyMs?: number; at?: string }): string {
  if (schedule.kind === "cron") return `${calendar(schedule.expr!)}${schedule.tz ? ` (${schedule.tz})` : ""}`;
  if (schedule.kind === "at") return new Date(schedule.at!).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
  if (schedule.kind !== "every") return schedule.kind;
  for (const [size, unit] of [[86_400_000, "day"], [3_600_000, "hour"], [60_000, "minute"], [1000, "second"]] as const) {
    const count = schedule.everyMs! / size;
    if (count >= 1 && Number.isInteger(count)) return count === 1 ? `every ${unit}` : `every ${count} ${unit}s`;
  }
  return `every ${schedule.everyMs} ms`;
}
