"""The helper process that holds one MCP server: the official SDK runs here."""

import asyncio
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TYPE_CHECKING, Any

import msgspec

from openclaw.tools.helper_lines import Ask, Tell
from openclaw.tools.helper_worker import Desk, LastWords, Voice, descendants, kill, run, told
from openclaw.tools.mcp.start import Start

if TYPE_CHECKING:
    import httpx2

MOST_TOOLS = 256
MOST_PAGES = 50
MOST_SCHEMA = 64 * 1024
MOST_TEXT = 1_000_000
MOST_IMAGE = 6_000_000
MOST_BLOCKS = 64
PROGRESS_EVERY = 0.25


class Worker:
    """Answers questions with the help of one connection."""

    def __init__(self, voice: Voice, words: LastWords) -> None:
        self.client: Any = None
        self._voice = voice
        self._words = words
        self._checks: dict[str, Any] = {}
        self._told_change = False

    async def heard(self, message: Any) -> None:
        """Passes on that the tools changed; once, until somebody has looked at them again."""
        from mcp_types import ToolListChangedNotification

        if isinstance(message, ToolListChangedNotification) and not self._told_change:
            self._told_change = True
            self._voice.say(Tell(body="changed"))

    async def answer(self, ask: Ask) -> Tell:
        try:
            if ask.body["do"] == "list":
                return Tell(id=ask.id, body=await self._listed())
            return await self._called(ask.id, ask.body["tool"], ask.body["args"])
        except _failures() as error:
            if getattr(error, "code", None) != _closed_code():
                return Tell(id=ask.id, error=told(error))
            return Tell(id=ask.id, error=self._words.after("its process ended or hung up"), over=True)

    async def _listed(self) -> tuple[Mapping[str, Any], ...]:
        found: dict[str, Mapping[str, Any]] = {}
        self._told_change = False
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            page = await self.client.list_tools(cursor=cursor, cache_mode="bypass")
            for tool in page.tools:
                checked = self._checked(tool)
                if checked is not None and len(found) < MOST_TOOLS:
                    found[tool.name] = checked
            cursor = page.next_cursor
            if not cursor:
                break
        return tuple(found.values())

    def _checked(self, tool: Any) -> Mapping[str, Any] | None:
        """A tool whose schema can be used; None for one that cannot be called sensibly."""
        schema = tool.input_schema
        if not tool.name or len(tool.name) > 200 or len(msgspec.json.encode(schema)) > MOST_SCHEMA:
            return None
        check = _validator(schema)
        if check is None:
            return None
        self._checks[tool.name] = check
        hints = tool.annotations
        return {
            "name": tool.name,
            "title": tool.title or (hints.title if hints else None) or "",
            "description": (tool.description or "")[:4096],
            "parameters": schema,
            "read_only": bool(hints and hints.read_only_hint),
        }

    async def _called(self, number: int, tool: str, args: Mapping[str, Any]) -> Tell:
        if tool not in self._checks:
            await self._listed()
        check = self._checks.get(tool)
        if check is None:
            return Tell(id=number, error=f"the server has no tool {tool!r} (any more)")
        wrong = _problems(check, args)
        if wrong:
            return Tell(id=number, error="the arguments do not fit the server's schema: " + "; ".join(wrong))

        last = 0.0

        async def progress(done: float, total: float | None, message: str | None) -> None:
            nonlocal last
            if time.monotonic() - last < PROGRESS_EVERY:
                return
            last = time.monotonic()
            so_far = f"{done:g}/{total:g}" if total else f"{done:g}"
            self._voice.say(Tell(id=number, progress=f"{so_far} {message or ''}".strip()[:200]))

        result = await self.client.call_tool(tool, dict(args), progress_callback=progress)
        structured = result.structured_content
        if structured is not None and len(msgspec.json.encode(structured)) > MOST_TEXT:
            structured = None
        content = tuple(_blocks(result.content))
        return Tell(id=number, body={"content": content, "structured": structured, "is_error": bool(result.is_error)})


def _blocks(content: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    """What a result holds, as text and images; sound and bytes are only named."""
    for block in content[:MOST_BLOCKS]:
        match block.type:
            case "text":
                yield {"type": "text", "text": block.text[:MOST_TEXT]}
            case "image" if len(block.data) <= MOST_IMAGE:
                yield {"type": "image", "data": block.data, "mimeType": block.mime_type}
            case "resource" if getattr(block.resource, "text", None) is not None:
                yield {"type": "text", "text": f"[{block.resource.uri}]\n{block.resource.text[:MOST_TEXT]}"}
            case "resource_link":
                yield {"type": "text", "text": f"[link: {block.uri} {block.title or block.name}]"}
            case other:
                yield {"type": "text", "text": f"[{other}: not shown]"}
    if len(content) > MOST_BLOCKS:
        yield {"type": "text", "text": f"[{len(content) - MOST_BLOCKS} more parts: not shown]"}


def _validator(schema: Mapping[str, Any]) -> Any:
    from jsonschema import SchemaError
    from jsonschema.validators import validator_for
    from referencing import Registry

    kind = validator_for(schema)
    try:
        kind.check_schema(schema)
    except (SchemaError, RecursionError):
        return None
    # An empty registry: a reference leads somewhere inside the schema or nowhere, never to the network.
    return kind(schema, registry=Registry())


def _problems(check: Any, args: Mapping[str, Any]) -> list[str]:
    from referencing.exceptions import Unresolvable

    try:
        found = [
            f"{'/'.join(map(str, each.path)) or 'arguments'}: {each.message[:300]}" for each in check.iter_errors(args)
        ]
    except (Unresolvable, RecursionError):
        return []  # the schema refers to what is not there; the server itself will judge
    return found[:5]


def _closed_code() -> int:
    from mcp_types import CONNECTION_CLOSED

    return int(CONNECTION_CLOSED)


def _failures() -> tuple[type[Exception], ...]:
    import anyio
    import httpx2
    from mcp.shared.exceptions import MCPError

    return (
        MCPError,
        httpx2.HTTPError,
        OSError,
        ValueError,
        RuntimeError,
        anyio.ClosedResourceError,
        anyio.BrokenResourceError,
        anyio.EndOfStream,
    )


def _http(start: Start) -> "httpx2.AsyncClient":
    import ssl

    import httpx2

    verify: Any = start.verify
    if start.client_cert:
        context = ssl.create_default_context()
        context.load_cert_chain(start.client_cert, start.client_key or None)
        if not start.verify:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        verify = context
    timeout = httpx2.Timeout(start.connect_seconds, read=None)
    return httpx2.AsyncClient(
        headers=dict(start.headers), verify=verify, timeout=timeout, trust_env=False, follow_redirects=False
    )


async def _transport(start: Start, stack: AsyncExitStack, words: LastWords) -> AbstractAsyncContextManager[Any]:
    match start.transport:
        case "stdio":
            from mcp.client.stdio import StdioServerParameters, stdio_client

            parameters = StdioServerParameters(
                command=start.command,
                args=list(start.args),
                env=dict(start.env),
                cwd=start.cwd or None,
                encoding_error_handler="replace",
            )
            return stdio_client(parameters, errlog=words.file)
        case "sse":
            from mcp.client.sse import sse_client

            return sse_client(
                start.url,
                timeout=start.connect_seconds,
                sse_read_timeout=86_400,
                httpx_client_factory=lambda headers=None, timeout=None, auth=None: _http(start),
            )
        case _:
            from mcp.client.streamable_http import streamable_http_client

            client = await stack.enter_async_context(_http(start))
            return streamable_http_client(start.url, http_client=client)


async def hold(start: Start, questions: "asyncio.Queue[Ask | None]", voice: Voice) -> None:
    """Connects, says so, and answers until there are no more questions."""
    import mcp_types as types
    from mcp import Client

    from openclaw.version import __version__

    words = LastWords()
    worker = Worker(voice, words)
    leaders: set[int] = set()
    try:
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(start.connect_seconds):
                client = await stack.enter_async_context(
                    Client(
                        await _transport(start, stack, words),
                        message_handler=worker.heard,
                        client_info=types.Implementation(name="openclaw-py", version=__version__),
                    )
                )
            leaders = descendants()
            voice.say(Tell(ready=True))
            worker.client = client
            await Desk(voice, worker.answer).serve(questions)
    except TimeoutError:
        voice.say(Tell(error=words.after(f"it was not ready within {start.connect_seconds:g} s")))
    except ExceptionGroup as error:
        voice.say(Tell(error=words.after(told(error))))
    except _failures() as error:
        voice.say(Tell(error=words.after(told(error))))
    finally:
        kill(leaders)


async def _main(body: Any, questions: "asyncio.Queue[Ask | None]", voice: Voice) -> None:
    await hold(msgspec.convert(body, Start), questions, voice)


if __name__ == "__main__":
    sys.exit(run("mcp", _main))
