// What an edit changes, line by line.

export interface Line {
  /** What comes, what goes, what stays; and a remark between the lines. */
  kind: "+" | "-" | " " | "…";
  text: string;
}

const MOST = 1500;

/** The shortest way from `before` to `after`; texts too long to compare are shown one after the other. */
export function lines(before: string, after: string): Line[] {
  const old = split(before);
  const now = split(after);
  if (old.length > MOST || now.length > MOST) {
    return [...old.map((text) => ({ kind: "-" as const, text })), ...now.map((text) => ({ kind: "+" as const, text }))];
  }
  const common: number[][] = Array.from({ length: old.length + 1 }, () => new Array<number>(now.length + 1).fill(0));
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = now.length - 1; j >= 0; j--) {
      common[i]![j] = old[i] === now[j] ? common[i + 1]![j + 1]! + 1 : Math.max(common[i + 1]![j]!, common[i]![j + 1]!);
    }
  }
  const found: Line[] = [];
  let i = 0;
  let j = 0;
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) found.push({ kind: " ", text: old[i++]! }), j++;
    else if (i < old.length && (j >= now.length || common[i + 1]![j]! >= common[i]![j + 1]!)) found.push({ kind: "-", text: old[i++]! });
    else found.push({ kind: "+", text: now[j++]! });
  }
  return found;
}

/** The lines of a text; the end of the last one starts no other. */
function split(text: string): string[] {
  return text === "" ? [] : text.replace(/\n$/, "").split("\n");
}

/** A tool call's arguments as changes to files; nothing when it changes none that way. */
export function changes(name: string, args: any): { path: string; lines: Line[] }[] {
  if (name === "edit") {
    const edits = Array.isArray(args?.edits) ? args.edits : args?.newText != null ? [args] : [];
    return edits.map((each: any) => ({ path: String(args.path), lines: lines(String(each.oldText ?? ""), String(each.newText ?? "")) }));
  }
  if (name === "write" && typeof args?.content === "string") {
    return [{ path: String(args.path), lines: args.content.split("\n").map((text: string) => ({ kind: "+", text })) }];
  }
  if (name === "apply_patch" && typeof args?.input === "string") {
    const text = args.input.split("\n").map((line: string) => {
      const kind = line.startsWith("+") ? "+" : line.startsWith("-") ? "-" : " ";
      return { kind, text: kind === " " ? line : line.slice(1) };
    });
    return [{ path: "patch", lines: text }];
  }
  return [];
}
