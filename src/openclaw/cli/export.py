"""`openclaw sessions show` and `export`: conversations of this home as text, Markdown, JSON or one HTML page."""

import asyncio
import json
import re
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from msgspec import Struct

from openclaw.cli import root
from openclaw.cli.render import JSON, ProgressLine, dollars, note, now_ms, show, when
from openclaw.cli.talk.markdown import parser
from openclaw.config.settings import StateStoreSettings
from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.core.messages import Assistant, Image, Message, ToolCall, ToolResult
from openclaw.core.text import spell_out_invisible, strip_unprintable
from openclaw.gateway.state import open_state
from openclaw.process.environment import Environment
from openclaw.process.tasks import SystemClock
from openclaw.sessions.files import load
from openclaw.sessions.history import rows_of, spoken_lines, to_markdown
from openclaw.sessions.index import SessionIndex, SessionRow
from openclaw.sessions.listing import list_document, row_to_json
from openclaw.sessions.reply_text import shape
from openclaw.sessions.transcript import build_context

T = TypeVar("T")


def list_here(agent_id: str | None, limit: int) -> dict[str, Any]:
    """The list of conversations, without a gateway."""
    state = Environment.of_process().home.state
    return with_index(partial(list_document, state=state, now=now_ms(), agent_id=agent_id, limit=limit))


def with_index(read: Callable[[SessionIndex], Awaitable[T]]) -> T:
    """What `read` finds in the index of this home."""

    async def main() -> T:
        environment = Environment.of_process()
        async with open_state(environment.home, SystemClock(), _store(environment), ProgressLine()) as (_, index):
            return await read(index)

    return asyncio.run(main())


def _store(environment: Environment) -> StateStoreSettings:
    """Where the state is kept; the configuration is read whole only if it may say so."""
    try:
        text = environment.home.config.read_bytes()
    except OSError:
        return StateStoreSettings()
    if b"store" not in text and b"$include" not in text:
        return StateStoreSettings()
    store: StateStoreSettings = root.load("home", "read_home")()[1].config.store
    return store


@click.command("show")
@click.argument("session")
@click.option("--tools", is_flag=True, help="Also tool calls and their results.")
@JSON
def show_command(session: str, tools: bool, as_json: bool) -> None:
    """What was said in SESSION (a key, an id or the start of one)."""
    row, path = with_index(partial(_find, session))
    loaded = load(path)
    context = build_context(loaded.entries)
    problems = (*loaded.problems, *context.problems)
    document = {
        **row_to_json(row, now_ms()),
        "messages": msgspec.to_builtins(context.messages),
        "problems": msgspec.to_builtins(problems),
    }
    for problem in () if as_json else problems:
        note(f"{problem.kind}: {problem.detail}")
    lines = (
        f"{when(message.timestamp)}  {who}: {text}"
        for message in context.messages
        for who, text in spoken_lines(message, tools)
    )
    show(document, lines, as_json)


@click.command("export")
@click.argument("session")
@click.option("-o", "--output", metavar="FILE", type=click.Path(), help="Write to FILE instead of standard output.")
@click.option(
    "--format", "kind", type=click.Choice(["markdown", "html", "jsonl"]), default="markdown", show_default=True
)
@click.option("--html", is_flag=True, help="The same as --format html: one page that needs nothing else.")
def export_command(session: str, output: str | None, kind: str, html: bool) -> None:
    """SESSION as one file, to keep or to share. Tool results may contain private data: look before you share."""
    text = _exported(*with_index(partial(_find, session)), "html" if html else kind)
    if output is None:
        click.echo(text, nl=not text.endswith("\n"))
        return
    _save(output, text)
    click.echo(output)


async def _find(session: str, index: SessionIndex) -> tuple[SessionRow, Path]:
    """The session that is meant, and its transcript."""
    row = await index.find(session)
    path = await index.fetch(row.agent_id, row.session_id)
    if not path.exists():
        raise NotFound(f"nothing has been said in {row.session_key} yet")
    return row, path


def _save(output: str, text: str) -> None:
    try:
        with Path(output).open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise InvalidRequest(f"{output} is already there: give another name") from error
    except OSError as error:
        raise InvalidRequest(f"cannot write {output}: {error.strerror}") from error


def _exported(row: SessionRow, path: Path, kind: str) -> str:
    """The whole session as text of `kind`, including what was compacted since."""
    if kind == "jsonl":
        return path.read_text(errors="replace")
    messages = [each.message for each in rows_of(load(path).entries)]
    if kind == "html":
        facts = {
            "Conversation": row.session_key,
            "Last used": when(row.updated_at),
            "Model": f"{row.provider}/{row.model}" if row.model else "",
            "Tokens": f"{row.total_tokens:,}" if row.total_tokens else "",
            "Cost": dollars(row.cost_usd),
        }
        shown = tuple((name, value) for name, value in facts.items() if value)
        return render_html(ExportHeader(title=row.title or row.session_key, facts=shown), messages)
    return to_markdown(row.title or row.session_key, messages, when)


# The HTML export.
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
    """The header of an exported page."""

    title: str
    facts: tuple[tuple[str, str], ...] = ()


def render_html(about: ExportHeader, messages: Sequence[Message]) -> str:
    """The whole page. Text in `messages` becomes markup only through Markdown without HTML."""
    results = {each.tool_call_id: each for each in messages if isinstance(each, ToolResult)}
    called = {call.id for each in messages if isinstance(each, Assistant) for call in each.calls}
    shown = (each for each in messages if not (isinstance(each, ToolResult) and each.tool_call_id in called))
    # The content security policy allows the one style by its digest, and no other.
    digest = b64encode(sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    title = _text(strip_unprintable(" ".join(about.title.split())))
    facts = "".join(f"<dt>{_text(name)}</dt><dd>{_text(strip_unprintable(value))}</dd>" for name, value in about.facts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="content-security-policy" content="{policy}">'
        f'<meta name="referrer" content="no-referrer"><meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{STYLE}</style></head>\n"
        f"<body><h1>{title}</h1><dl>{facts}</dl>\n{''.join(_article(each, results) for each in shown)}</body></html>\n"
    )


def _article(message: Message, results: Mapping[str, ToolResult]) -> str:
    if isinstance(message, Assistant):
        kind, who, said = "assistant", "Assistant", _answer(message, results)
    elif isinstance(message, ToolResult):
        kind, who, said = "tool", f"Result of {message.tool_name}", _result(message)
    else:
        kind, who, said = "user", "You", f"<p>{_spelled(message.text)}</p>" + _pictures(message.content)
    when = datetime.fromtimestamp(message.timestamp / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f'<article class="{kind}"><small>{_text(strip_unprintable(who))} · {when}</small>{said}</article>\n'


def _answer(message: Assistant, results: Mapping[str, ToolResult]) -> str:
    shaped = shape(message.text)
    thought = "\n\n".join(part for part in (message.thinking, shaped.reasoning) if part.strip())
    shown = f"<details><summary>Thinking</summary><pre>{_spelled(thought)}</pre></details>" if thought else ""
    if shaped.text.strip():
        shown += _markdown().render(strip_unprintable(shaped.text))
    if message.error_message:
        shown += f"<p><strong>{_text(strip_unprintable(message.error_message))}</strong></p>"
    return shown + "".join(_call(call, results.get(call.id)) for call in message.calls)


def _call(call: ToolCall, result: ToolResult | None) -> str:
    failed = ' class="failed"' if result is None or result.is_error else ""
    name = _text(strip_unprintable(call.name))
    return f"<details{failed}><summary>{name}</summary>{_arguments(call.arguments)}{_result(result)}</details>"


def _arguments(arguments: Mapping[str, Any]) -> str:
    edits = [each for each in arguments.get("edits") or () if isinstance(each, Mapping)]
    rest = {name: value for name, value in arguments.items() if name != "edits" or not edits}
    shown = f"<pre>{_spelled(json.dumps(rest, indent=2, ensure_ascii=False))}</pre>"
    for edit in edits:
        old, new = (_spelled(str(edit.get(name, ""))) for name in ("oldText", "newText"))
        shown += f"<pre><del>{old}</del><ins>{new}</ins></pre>"
    return shown


def _result(result: ToolResult | None) -> str:
    if result is None:
        return "<p>No result.</p>"
    return f"<pre>{_spelled(result.text)}</pre>{_pictures(result.content)}"


def _pictures(content: Any) -> str:
    """Embeds pictures in the page; data that is not a picture is left out with a note."""
    shown = ""
    for block in content if isinstance(content, tuple) else ():
        if isinstance(block, Image):
            good = block.mime_type in PICTURES and _BASE64.fullmatch(block.data)
            image = f'<img alt="" src="data:{block.mime_type};base64,{block.data}">' if good else "[image]"
            shown += f"<p>{image}</p>"
    return shown


def _text(text: str) -> str:
    # A lone surrogate cannot be written to a file.
    return escape(text.encode("utf-8", "replace").decode())


def _spelled(text: str) -> str:
    """Escaped, with invisible characters spelled out."""
    return _text(spell_out_invisible(text, "\n\t"))


def _markdown() -> MarkdownIt:
    made = parser()
    made.core.ruler.push("plain", _without_styles)
    made.add_render_rule("image", _image)
    made.add_render_rule("link_open", _link)
    made.add_render_rule("fence", _fence)
    return made


def _without_styles(state: StateCore) -> None:
    """Removes inline styles of table columns, which the page's policy does not allow."""
    for token in state.tokens:
        token.attrs.pop("style", None)


def _image(self: RendererHTML, tokens: Sequence[Token], at: int, options: OptionsDict, env: EnvType) -> str:
    """Shows a remote picture as a link: opening the page must not contact anyone."""
    address = str(tokens[at].attrs.get("src", ""))
    label = _text(tokens[at].content or address)
    return f'<a rel="noopener noreferrer nofollow" href="{_text(address)}">[picture: {label}]</a>'


def _link(self: RendererHTML, tokens: Sequence[Token], at: int, options: OptionsDict, env: EnvType) -> str:
    address = str(tokens[at].attrs.get("href", ""))
    return f'<a rel="noopener noreferrer nofollow" title="{_text(address)}" href="{_text(address)}">'


def _fence(self: RendererHTML, tokens: Sequence[Token], at: int, options: OptionsDict, env: EnvType) -> str:
    return f"<pre><code>{_text(tokens[at].content)}</code></pre>\n"
