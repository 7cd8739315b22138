// Markdown from models and strangers: no HTML of theirs, no address that runs, nothing fetched from elsewhere.

import DOMPurify from "dompurify";
import { Marked } from "marked";

const escape = (text: string) =>
  text.replace(/[&<>"']/g, (char) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" })[char]!);

const marked = new Marked({ gfm: true, breaks: true, async: false });
marked.use({ renderer: { html: ({ text }) => escape(text) } });

const ALLOWED = {
  ALLOWED_TAGS: "a b blockquote br code del em h1 h2 h3 h4 h5 h6 hr i img input li ol p pre s strong sub sup table tbody td th thead tr ul".split(" "),
  ALLOWED_ATTR: ["href", "src", "alt", "title", "class", "type", "checked", "disabled", "start", "align"],
  ADD_URI_SAFE_ATTR: ["type", "checked", "disabled", "start", "align"],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|data:image\/(?:png|jpeg|gif|webp);base64,)/i,
  RETURN_DOM_FRAGMENT: true as const,
};

/** `text` as elements that are safe to put on the page. */
export function render(text: string): DocumentFragment {
  const fragment = DOMPurify.sanitize(marked.parse(text) as string, ALLOWED);
  for (const link of fragment.querySelectorAll("a")) tame(link);
  for (const image of fragment.querySelectorAll("img")) still(image);
  for (const box of fragment.querySelectorAll("input")) {
    if (box.type === "checkbox") box.disabled = true;
    else box.remove();
  }
  for (const each of fragment.querySelectorAll("[class]")) {
    if (!/^language-[\w+#.-]+$/.test(each.className)) each.removeAttribute("class");
  }
  for (const pre of fragment.querySelectorAll("pre")) frame(pre);
  for (const table of fragment.querySelectorAll("table")) {
    const scroller = document.createElement("div");
    scroller.className = "scroller";
    table.replaceWith(scroller);
    scroller.append(table);
  }
  return fragment;
}

function tame(link: HTMLAnchorElement): void {
  if (!/^(https?:|mailto:)/i.test(link.getAttribute("href") ?? "")) {
    link.replaceWith(...link.childNodes);
    return;
  }
  link.target = "_blank";
  link.rel = "noopener noreferrer";
  link.title = link.href;
}

/** A picture from elsewhere would tell its server that it was seen: it becomes a link. */
function still(image: HTMLImageElement): void {
  const source = image.getAttribute("src") ?? "";
  if (source.startsWith("data:image/")) return;
  const link = document.createElement("a");
  link.href = source;
  link.textContent = `🖼 ${image.alt || source}`;
  tame(link);
  if (/^https?:/i.test(source) && !image.closest("a")) image.replaceWith(link);
  else image.replaceWith(image.alt || source);
}

function frame(pre: HTMLElement): void {
  const code = pre.querySelector("code");
  const figure = document.createElement("figure");
  figure.className = "code";
  const bar = document.createElement("figcaption");
  bar.append(/language-(\S+)/.exec(code?.className ?? "")?.[1] ?? "text");
  const button = document.createElement("button");
  button.type = "button";
  button.className = "quiet";
  button.textContent = "Copy";
  button.addEventListener("click", () => void copy(button, (code ?? pre).textContent ?? ""));
  bar.append(button);
  pre.replaceWith(figure);
  pre.tabIndex = 0;
  figure.append(bar, pre);
}

export async function copy(button: HTMLElement, text: string): Promise<void> {
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not allowed here";
  }
  setTimeout(() => (button.textContent = label), 1500);
}
