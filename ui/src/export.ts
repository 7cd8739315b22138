// A conversation as one file: JSON, Markdown, or a page that needs nothing else.

import { gateway, type Json } from "./gateway.js";
import { render } from "./markdown.js";
import { textOf } from "./talk.js";

export type Format = "json" | "md" | "html";

const STYLE =
  "body{font:16px/1.6 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}" +
  "article{margin:1rem 0;padding:.2rem 1rem;border-left:3px solid #8888}.user{border-color:#b4472e}" +
  "pre{overflow:auto;padding:.6rem;background:#8882;border-radius:.4rem}small{opacity:.7}button{display:none}";

export async function exported(row: Json, format: Format): Promise<{ name: string; kind: string; text: string }> {
  const messages = await everything(row.key);
  const name = `${String(row.displayName).replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 60) || "conversation"}.${format}`;
  if (format === "json") return { name, kind: "application/json", text: JSON.stringify({ session: row, messages }, null, 2) };
  if (format === "md") return { name, kind: "text/markdown", text: markdown(row, messages) };
  return { name, kind: "text/html", text: page(row, messages) };
}

async function everything(key: string): Promise<Json[]> {
  const pages: Json[][] = [];
  let offset = 0;
  for (;;) {
    const page = await gateway.call("chat.history", { sessionKey: key, limit: 500, offset, maxBytes: 8_000_000, maxChars: 500_000 });
    pages.unshift(page.messages);
    if (!page.hasMore || !(page.nextOffset > offset)) return pages.flat();
    offset = page.nextOffset;
  }
}

function who(message: Json): string {
  return message.role === "user" ? "You" : message.role === "toolResult" ? `Result of ${message.toolName}` : "Assistant";
}

function calls(message: Json): Json[] {
  return Array.isArray(message.content) ? message.content.filter((block: Json) => block.type === "toolCall") : [];
}

function markdown(row: Json, messages: Json[]): string {
  const parts = [`# ${row.displayName}\n`];
  for (const message of messages) {
    const said = message.role === "toolResult" ? `~~~\n${textOf(message)}\n~~~` : textOf(message);
    const called = calls(message).map((call) => `~~~json\n${call.name} ${JSON.stringify(call.arguments)}\n~~~`);
    parts.push(`**${who(message)}** (${new Date(message.timestamp).toISOString()})\n\n${[said, ...called].filter(Boolean).join("\n\n")}\n`);
  }
  return parts.join("\n");
}

function page(row: Json, messages: Json[]): string {
  const doc = document.implementation.createHTMLDocument(String(row.displayName));
  const policy = doc.createElement("meta");
  policy.httpEquiv = "content-security-policy";
  policy.content = "default-src 'none'; img-src data:; style-src 'unsafe-inline'";
  const charset = doc.createElement("meta");
  charset.setAttribute("charset", "utf-8");
  const style = doc.createElement("style");
  style.textContent = STYLE;
  doc.head.prepend(charset, policy);
  doc.head.append(style);
  const title = doc.createElement("h1");
  title.textContent = String(row.displayName);
  doc.body.append(title);
  for (const message of messages) {
    const article = doc.createElement("article");
    article.className = message.role === "user" ? "user" : "";
    const head = doc.createElement("small");
    head.textContent = `${who(message)} · ${new Date(message.timestamp).toLocaleString()}`;
    article.append(head);
    const pre = (text: string) => {
      const block = doc.createElement("pre");
      block.textContent = text;
      article.append(block);
    };
    if (message.role === "assistant") article.append(doc.importNode(render(textOf(message)), true));
    else pre(textOf(message));
    for (const call of calls(message)) pre(`${call.name} ${JSON.stringify(call.arguments, null, 2)}`);
    doc.body.append(article);
  }
  return `<!doctype html>\n${doc.documentElement.outerHTML}\n`;
}
