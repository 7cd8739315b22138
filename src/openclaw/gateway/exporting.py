"""A conversation as one page that needs nothing else: no script, no request, whatever was said in it. Pure."""

import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from msgspec import Struct

from openclaw.core.messages import Assistant, Image, Message, ToolCall, ToolResult
from openclaw.core.visible import printable, spelled
from openclaw.delivery.shape import shape
from openclaw.gateway.markdown import parser

STYLE = (
    "body{font:16px/1.6 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark;"
    "overflow-wrap:anywhere}article{margin:1rem 0;padding:.2rem 1rem;border-left:3px solid #8888}"
    ".user{border-color:#b4472e}.user p,pre{white-space:pre-wrap}"
    "pre{padding:.6rem;background:#8882;border-radius:.4rem;overflow:auto}"
    "small,dl{opacity:.75}dl{display:grid;grid-template-columns:max-content 1fr;gap:0 1rem}dd{margin:0}"
    "table{border-collapse:collapse}td,th{border:1px solid #8886;padding:.2rem .6rem}img{max-width:100%}"
    "details{margin:.5rem 0}.failed summary{color:#c33}ins,del{text-decoration:none;display:block}"
    "ins{background:#2a22}del{background:#c332}"
)
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


class ExportHeader(Struct, frozen=True, kw_only=True):
    """What stands above the conversation."""

    title: str
    facts: tuple[tuple[str, str], ...] = ()


def page(about: ExportHeader, messages: Sequence[Message]) -> str:
    """The whole page. Nothing in `messages` becomes markup except by way of Markdown without HTML."""
    results = {each.tool_call_id: each for each in messages if isinstance(each, ToolResult)}
    called = {call.id for each in messages if isinstance(each, Assistant) for call in each.calls}
    body = [
        _article(each, results)
        for each in messages
        if not isinstance(each, ToolResult) or each.tool_call_id not in called
    ]
    # The one style is allowed by its digest, so that no other can get in.
    digest = b64encode(sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    title = _text(printable(" ".join(about.title.split())))
    facts = "".join(f"<dt>{_text(name)}</dt><dd>{_text(printable(value))}</dd>" for name, value in about.facts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="content-security-policy" content="{policy}">'
        f'<meta name="referrer" content="no-referrer"><meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{STYLE}</style></head>\n"
        f"<body><h1>{title}</h1><dl>{facts}</dl>\n{''.join(body)}</body></html>\n"
    )


def _article(message: Message, results: Mapping[str, ToolResult]) -> str:
    if isinstance(message, Assistant):
        kind, who, said = "assistant", "Assistant", _answer(message, results)
    elif isinstance(message, ToolResult):
        kind, who, said = "tool", f"Result of {message.tool_name}", _result(message)
    else:
        kind, who, said = "user", "You", f"<p>{_text(spelled(message.text, _SPACES))}</p>" + _pictures(message.content)
    when = datetime.fromtimestamp(message.timestamp / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f'<article class="{kind}"><small>{_text(printable(who))} · {when}</small>{said}</article>\n'


def _answer(message: Assistant, results: Mapping[str, ToolResult]) -> str:
    shaped = shape(message.text)
    thought = "\n\n".join(part for part in (message.thinking, shaped.reasoning) if part.strip())
    parts = []
    if thought:
        parts.append(f"<details><summary>Thinking</summary><pre>{_text(spelled(thought, _SPACES))}</pre></details>")
    if shaped.text.strip():
        parts.append(_markdown().render(printable(shaped.text)))
    if message.error_message:
        parts.append(f"<p><strong>{_text(printable(message.error_message))}</strong></p>")
    return "".join((*parts, *(_call(call, results.get(call.id)) for call in message.calls)))


def _call(call: ToolCall, result: ToolResult | None) -> str:
    failed = ' class="failed"' if result is None or result.is_error else ""
    name = _text(printable(call.name))
    return f"<details{failed}><summary>{name}</summary>{_arguments(call.arguments)}{_result(result)}</details>"


def _arguments(arguments: Mapping[str, Any]) -> str:
    edits = [each for each in arguments.get("edits") or () if isinstance(each, Mapping)]
    rest = {name: value for name, value in arguments.items() if name != "edits" or not edits}
    shown = f"<pre>{_text(spelled(json.dumps(rest, indent=2, ensure_ascii=False), _SPACES))}</pre>"
    for edit in edits:
        old, new = (spelled(str(edit.get(name, "")), _SPACES) for name in ("oldText", "newText"))
        shown += f"<pre><del>{_text(old)}</del><ins>{_text(new)}</ins></pre>"
    return shown


def _result(result: ToolResult | None) -> str:
    if result is None:
        return "<p>No result.</p>"
    return f"<pre>{_text(spelled(result.text, _SPACES))}</pre>{_pictures(result.content)}"


def _pictures(content: Any) -> str:
    """Pictures are in the page itself; what does not look like one is left out and said so."""
    shown = ""
    for block in content if isinstance(content, tuple) else ():
        if isinstance(block, Image):
            good = block.mime_type in PICTURES and _BASE64.fullmatch(block.data)
            shown += (
                f'<p><img alt="" src="data:{block.mime_type};base64,{block.data}"></p>' if good else "<p>[image]</p>"
            )
    return shown


_SPACES = "\n\t"


def _text(text: str) -> str:
    # Half a character cannot be written to a file.
    return escape(text.encode("utf-8", "replace").decode())


def _markdown() -> MarkdownIt:
    made = parser()
    made.core.ruler.push("plain", _without_styles)
    made.add_render_rule("image", _image)
    made.add_render_rule("link_open", _link)
    made.add_render_rule("fence", _fence)
    return made


def _without_styles(state: StateCore) -> None:
    """Columns of tables would be aligned by inline styles, which the page does not allow."""
    for token in state.tokens:
        token.attrs.pop("style", None)


def _image(self: RendererHTML, tokens: Sequence[Token], at: int, options: OptionsDict, env: EnvType) -> str:
    """A picture elsewhere is a link: looking at the page tells nobody."""
    token = tokens[at]
    label = _text(token.content or str(token.attrs.get("src", "")))
    return (
        f'<a rel="noopener noreferrer nofollow" href="{_text(str(token.attrs.get("src", "")))}">[picture: {label}]</a>'
    )


def _link(self: RendererHTML, tokens: Sequence[Token], at: int, options: OptionsDict, env: EnvType) -> str:
    address = str(tokens[at].attrs.get("href", ""))
    return f'<a rel="noopener noreferrer nofollow" title="{_text(address)}" href="{_text(address)}">'


def _fence(self: RendererHTML, tokens: Sequence[Token], at: int, options: OptionsDict, env: EnvType) -> str:
    return f"<pre><code>{_text(tokens[at].content)}</code></pre>\n"
