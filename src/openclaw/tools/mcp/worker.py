"""The worker process of one MCP server: runs the official SDK."""

import asyncio
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from typing import Any

import anyio
import httpx2
import mcp_types
import msgspec
from jsonschema import SchemaError
from jsonschema.validators import validator_for
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from referencing import Registry
from referencing.exceptions import Unresolvable

from openclaw.process.group import descendants, kill
from openclaw.process.stdio_rpc import (
    RequestLoop,
    StderrTail,
    WorkerMessage,
    WorkerOutput,
    WorkerRequest,
    describe_error,
    run_worker,
)
from openclaw.tools.mcp.schema import McpStart
from openclaw.version import __version__

# Resources and prompts.

MOST_LISTED = 200
SHOWN = 300
MOST_TEXT = 1_000_000
MOST_IMAGE = 6_000_000
MOST_BLOCKS = 64

_CURSOR = {"cursor": {"type": "string", "description": "The nextCursor of the page before"}}


def _tool(name: str, description: str, properties: Mapping[str, Any], *required: str) -> Mapping[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    return {"name": name, "title": "", "description": description, "parameters": schema, "read_only": True}


RESOURCES = (
    _tool("resources_list", "List what this server has to read: address, name and type of each resource.", _CURSOR),
    _tool(
        "resources_read",
        "Read a resource of this server.",
        {"uri": {"type": "string", "description": "Its address, as resources_list gives it"}},
        "uri",
    ),
)
PROMPTS = (
    _tool("prompts_list", "List the prompts this server has ready, with their arguments.", _CURSOR),
    _tool(
        "prompts_get",
        "Get a prompt of this server, filled in.",
        {
            "name": {"type": "string", "description": "Its name, as prompts_list gives it"},
            "arguments": {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "description": "Its arguments by name",
            },
        },
        "name",
    ),
)


async def list_extra_tools(client: Any) -> list[Mapping[str, Any]]:
    """The tools for the server's resources and prompts; none for what it does not have."""

    async def some(ask: Any, field: str) -> bool:
        try:
            return bool(getattr(await ask(cache_mode="bypass"), field))
        except MCPError:
            return False

    can = client.server_capabilities
    found: list[Mapping[str, Any]] = []
    if can.resources is not None and (
        await some(client.list_resources, "resources")
        or await some(client.list_resource_templates, "resource_templates")
    ):
        found += RESOURCES
    if can.prompts is not None and await some(client.list_prompts, "prompts"):
        found += PROMPTS
    return found


async def call_extra_tool(client: Any, name: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
    """Calls one of the tools above."""
    match name:
        case "resources_list":
            return _json(await _resources(client, args.get("cursor")))
        case "prompts_list":
            return _json(await _prompts(client, args.get("cursor")))
        case "resources_read":
            read = await client.read_resource(args["uri"], cache_mode="bypass")
            return _result(_read(read.contents))
        case _:
            got = await client.get_prompt(args["name"], dict(args.get("arguments") or {}))
            return _result(_spoken(got.messages))


async def _resources(client: Any, cursor: str | None) -> dict[str, Any]:
    page = await client.list_resources(cursor=cursor, cache_mode="bypass")
    templates = []
    if cursor is None:
        with suppress(MCPError):
            templates = (await client.list_resource_templates(cache_mode="bypass")).resource_templates
    return {
        "resources": [
            {"uri": str(each.uri), "size": getattr(each, "size", None), **_about(each)}
            for each in page.resources[:MOST_LISTED]
        ],
        "templates": [{"uriTemplate": each.uri_template, **_about(each)} for each in templates[:MOST_LISTED]],
        "nextCursor": page.next_cursor,
    }


async def _prompts(client: Any, cursor: str | None) -> dict[str, Any]:
    page = await client.list_prompts(cursor=cursor, cache_mode="bypass")
    return {
        "prompts": [
            {
                **_about(each),
                "arguments": [
                    {"name": one.name, "required": bool(one.required), "description": (one.description or "")[:SHOWN]}
                    for one in each.arguments or ()
                ],
            }
            for each in page.prompts[:MOST_LISTED]
        ],
        "nextCursor": page.next_cursor,
    }


def _about(each: Any) -> dict[str, Any]:
    return {
        "name": each.name,
        "title": each.title,
        "description": (each.description or "")[:SHOWN],
        "mimeType": getattr(each, "mime_type", None),
    }


def _read(contents: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    for each in contents[:MOST_BLOCKS]:
        text = getattr(each, "text", None)
        blob = getattr(each, "blob", None) or ""
        mime = each.mime_type or ""
        if text is not None:
            yield {"type": "text", "text": text[:MOST_TEXT]}
        elif mime.startswith("image/") and len(blob) <= MOST_IMAGE:
            yield {"type": "image", "data": blob, "mimeType": mime}
        else:
            what = f"{len(blob) * 3 // 4} bytes of {mime or 'no type'}"
            yield {"type": "text", "text": f"[{each.uri}: {what}: not shown]"}


def _spoken(messages: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    for each in messages[:MOST_BLOCKS]:
        for block in blocks([each.content]):
            yield {**block, "text": f"{each.role}: {block['text']}"} if block["type"] == "text" else block


def blocks(content: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    """The content of a result, as text and images; audio and binary data are only named."""
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


def _json(value: dict[str, Any]) -> Mapping[str, Any]:
    text = msgspec.json.format(msgspec.json.encode(_without_nothing(value)), indent=1).decode()
    return _result([{"type": "text", "text": text}])


def _without_nothing(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nothing(each) for name, each in value.items() if each not in (None, "")}
    return [_without_nothing(each) for each in value] if isinstance(value, list) else value


def _result(content: Any) -> Mapping[str, Any]:
    return {"content": tuple(content), "structured": None, "is_error": False}


MOST_TOOLS = 256
MOST_PAGES = 50
MOST_SCHEMA = 64 * 1024
PROGRESS_EVERY = 0.25
_HUNG_UP = (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream)
_FAILURES = (MCPError, httpx2.HTTPError, OSError, ValueError, RuntimeError, *_HUNG_UP)
_CHANGES = (
    mcp_types.ToolListChangedNotification,
    mcp_types.ResourceListChangedNotification,
    mcp_types.PromptListChangedNotification,
)
SIGN_IN = (
    "it wants to know who calls, or does not accept the token. Put a token into the server's "
    "headers.Authorization, for example as a secret reference; signing in with OAuth is not supported"
)


class McpWorker:
    """Answers requests over one connection."""

    def __init__(self, output: WorkerOutput, stderr: StderrTail) -> None:
        self.client: Any = None
        self.refused = AuthDetector()
        self._output = output
        self._stderr = stderr
        self._checks: dict[str, Any] = {}
        self._extra: dict[str, Mapping[str, Any]] = {}
        self._announced = False

    async def heard(self, message: Any) -> None:
        """Reports that the tool list changed; once, until it was listed again."""
        if isinstance(message, _CHANGES) and not self._announced:
            self._announced = True
            self._output.say(WorkerMessage(body="changed"))

    async def answer(self, ask: WorkerRequest) -> WorkerMessage:
        try:
            if ask.body["do"] == "list":
                return WorkerMessage(id=ask.id, body=await self._list())
            return await self._call(ask.id, ask.body["tool"], ask.body["args"])
        except _FAILURES as error:
            if getattr(error, "code", None) != mcp_types.CONNECTION_CLOSED:
                return WorkerMessage(id=ask.id, error=self.refused.describe(error))
            return WorkerMessage(id=ask.id, error=self._stderr.after("its process ended or hung up"), over=True)

    async def _list(self) -> tuple[Mapping[str, Any], ...]:
        found: dict[str, Mapping[str, Any]] = {}
        self._announced = False
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            page = await self.client.list_tools(cursor=cursor, cache_mode="bypass")
            for tool in page.tools:
                checked = self._check(tool)
                if checked is not None and len(found) < MOST_TOOLS:
                    found[tool.name] = checked
            cursor = page.next_cursor
            if not cursor:
                break
        # A tool by such a name is the server's own and takes precedence.
        self._extra = {each["name"]: each for each in await list_extra_tools(self.client) if each["name"] not in found}
        for name, each in self._extra.items():
            self._checks[name] = _validator(each["parameters"])
        return (*found.values(), *self._extra.values())

    def _check(self, tool: Any) -> Mapping[str, Any] | None:
        """A tool with a usable schema; None for one that cannot be called."""
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

    async def _call(self, number: int, tool: str, args: Mapping[str, Any]) -> WorkerMessage:
        if tool not in self._checks:
            await self._list()
        check = self._checks.get(tool)
        if check is None:
            return WorkerMessage(id=number, error=f"the server has no tool {tool!r} (any more)")
        wrong = _problems(check, args)
        if wrong:
            return WorkerMessage(id=number, error="the arguments do not fit the server's schema: " + "; ".join(wrong))

        if tool in self._extra:
            return WorkerMessage(id=number, body=await call_extra_tool(self.client, tool, args))

        last = 0.0

        async def progress(done: float, total: float | None, message: str | None) -> None:
            nonlocal last
            if time.monotonic() - last < PROGRESS_EVERY:
                return
            last = time.monotonic()
            so_far = f"{done:g}/{total:g}" if total else f"{done:g}"
            self._output.say(WorkerMessage(id=number, progress=f"{so_far} {message or ''}".strip()[:200]))

        result = await self.client.call_tool(tool, dict(args), progress_callback=progress)
        structured = result.structured_content
        if structured is not None and len(msgspec.json.encode(structured)) > MOST_TEXT:
            structured = None
        content = tuple(blocks(result.content))
        return WorkerMessage(
            id=number, body={"content": content, "structured": structured, "is_error": bool(result.is_error)}
        )


def _validator(schema: Mapping[str, Any]) -> Any:
    kind = validator_for(schema)
    try:
        kind.check_schema(schema)
    except (SchemaError, RecursionError):
        return None
    # An empty registry: references resolve inside the schema or not at all, never over the network.
    return kind(schema, registry=Registry())


def _problems(check: Any, args: Mapping[str, Any]) -> list[str]:
    try:
        found = [
            f"{'/'.join(map(str, each.path)) or 'arguments'}: {each.message[:300]}" for each in check.iter_errors(args)
        ]
    except (Unresolvable, RecursionError):
        return []  # the schema has a broken reference; the server itself will validate
    return found[:5]


class AuthDetector:
    """Detects that a server requires authentication, which the SDK reports like any other refusal."""

    def __init__(self) -> None:
        self.status = 0

    async def look(self, response: httpx2.Response) -> None:
        self.status = response.status_code if response.status_code in (401, 403) else 0

    def describe(self, error: BaseException) -> str:
        return f"it answered {self.status}: {SIGN_IN}" if self.status else describe_error(error)


def _http(start: McpStart, refused: AuthDetector) -> httpx2.AsyncClient:
    verify: Any = start.ssl_verify
    if start.client_cert:
        context = ssl.create_default_context()
        context.load_cert_chain(start.client_cert, start.client_key or None)
        if not start.ssl_verify:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        verify = context
    timeout = httpx2.Timeout(start.connect_seconds, read=None)
    return httpx2.AsyncClient(
        headers=dict(start.headers),
        verify=verify,
        timeout=timeout,
        trust_env=False,
        follow_redirects=False,
        event_hooks={"response": [refused.look]},
    )


async def _transport(
    start: McpStart, stack: AsyncExitStack, stderr: StderrTail, refused: AuthDetector
) -> AbstractAsyncContextManager[Any]:
    match start.transport:
        case "stdio":
            parameters = StdioServerParameters(
                command=start.command,
                args=list(start.args),
                env=dict(start.env),
                cwd=start.cwd or None,
                encoding_error_handler="replace",
            )
            return stdio_client(parameters, errlog=stderr.file)
        case "sse":

            def client_factory(headers: Any = None, timeout: Any = None, auth: Any = None) -> httpx2.AsyncClient:
                return _http(start, refused)

            return sse_client(
                start.url, timeout=start.connect_seconds, sse_read_timeout=86_400, httpx_client_factory=client_factory
            )
        case _:
            client = await stack.enter_async_context(_http(start, refused))
            return streamable_http_client(start.url, http_client=client)


async def serve_mcp(body: Any, questions: "asyncio.Queue[WorkerRequest | None]", output: WorkerOutput) -> None:
    """Connects, reports that it is ready, and answers requests until the input ends."""
    start = msgspec.convert(body, McpStart)
    stderr = StderrTail()
    worker = McpWorker(output, stderr)
    leaders: set[int] = set()
    try:
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(start.connect_seconds):
                client = await stack.enter_async_context(
                    Client(
                        await _transport(start, stack, stderr, worker.refused),
                        message_handler=worker.heard,
                        client_info=mcp_types.Implementation(name="openclaw-py", version=__version__),
                    )
                )
            leaders = descendants()
            output.say(WorkerMessage(ready=True))
            worker.client = client
            await RequestLoop(output, worker.answer).serve(questions)
    except TimeoutError:
        output.say(WorkerMessage(error=stderr.after(f"it was not ready within {start.connect_seconds:g} s")))
    except (ExceptionGroup, *_FAILURES) as error:
        output.say(WorkerMessage(error=stderr.after(worker.refused.describe(error))))
    finally:
        kill(leaders)


if __name__ == "__main__":
    run_worker(serve_mcp)
