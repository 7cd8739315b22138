"""How a plugin's process answers calls: each operation finds what was registered and runs it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

from openclaw.core.channel import Channel, ShowsTyping
from openclaw.core.chat import Address, Outbound
from openclaw.core.embedder import Embedder, EmbedderEndpoint, EmbedsQueries, HasTraits, Traits
from openclaw.core.errors import NotFound
from openclaw.core.plugin import Brought, CommandCall, CommandReply, FunctionTool, HttpAnswer, HttpRequest, output_of
from openclaw.core.provider import Endpoint, Provider
from openclaw.core.tool import Effects, Tool, ToolContext
from openclaw.plugins import wire
from openclaw.plugins.calling import called
from openclaw.plugins.wire import packed, unpacked

Answer = Awaitable[Raw] | AsyncIterator[Raw]


async def use_tool(tool: Tool, args: Mapping[str, Any], context: ToolContext) -> Any:
    if isinstance(tool, FunctionTool):
        return output_of(await called(tool.run, args, context))
    return await tool.call(args, context)


class HostAnswers:
    """Everything one plugin can be asked."""

    def __init__(self, brought: Brought, report: Callable[[int, Raw], None]) -> None:
        self._brought = brought
        self._report = report
        self._tools = {tool.spec.name: tool for tool in brought.tools}
        self._commands = {command.name: command for command in brought.commands}
        self._methods = {method.name: method for method in brought.methods}
        self._routes = {route.path: route for route in brought.routes}
        self._channels: dict[str, Channel] = {channel.name: channel for channel in brought.channels}
        self._providers: dict[tuple[str, bytes], Provider] = {}
        self._embedders: dict[tuple[str, bytes], Embedder] = {}
        self._alone: dict[str, asyncio.Lock] = {}

    def to(self, call: wire.HostCall) -> Answer:
        """The answer to `call`: something to await, or a stream."""
        operation: Callable[[wire.HostCall], Answer] = getattr(self, f"_{call.op}")
        return operation(call)

    async def close(self) -> None:
        for provider in self._providers.values():
            await provider.close()
        for embedder in self._embedders.values():
            await embedder.close()

    async def _tool(self, call: wire.HostCall) -> Raw:
        tool = _find(self._tools, call.name)
        asked = unpacked(call.payload, wire.ToolInput)
        context = ToolContext(
            call_id=asked.call_id,
            workspace=Path(asked.workspace),
            session_key=asked.session_key,
            run_id=asked.run_id,
            agent_id=asked.agent_id,
            tools=asked.tools,
            accepts_images=asked.accepts_images,
            report=lambda text: self._report(call.id, packed(str(text))),
        )
        async with AsyncExitStack() as held:
            # In one order for everybody, so that two calls never wait for each other.
            for name in sorted(tool.resources(asked.args, context)):
                await held.enter_async_context(self._alone.setdefault(name, asyncio.Lock()))
            output = await use_tool(tool, asked.args, context)
        return packed(
            wire.ToolOutput(
                content=output.content,
                details=output.details,
                is_error=output.is_error,
                end_matters=output.end_matters,
            )
        )

    async def _hook(self, call: wire.HostCall) -> Raw:
        from openclaw.core.hooks import POINTS, HookContext

        hook = self._brought.hooks[int(call.name)]
        point = POINTS[hook.point]  # type: ignore[index]
        asked = unpacked(call.payload, wire.HookInput)
        event, context = unpacked(asked.event, point.event), unpacked(asked.context, HookContext)
        answer = await called(hook.run, event, context)
        if answer is not None and point.answer is not None and not isinstance(answer, point.answer):
            answer = msgspec.convert(answer, point.answer)
        return packed(answer if point.answer is not None else None)

    async def _command(self, call: wire.HostCall) -> Raw:
        found = await called(_find(self._commands, call.name).run, unpacked(call.payload, CommandCall))
        return packed(found if isinstance(found, CommandReply) else CommandReply(text=str(found)))

    async def _method(self, call: wire.HostCall) -> Raw:
        return packed(await called(_find(self._methods, call.name).run, unpacked(call.payload, dict)))

    async def _route(self, call: wire.HostCall) -> Raw:
        found = await called(_find(self._routes, call.name).run, unpacked(call.payload, HttpRequest))
        if not isinstance(found, HttpAnswer):
            raise TypeError(f"the handler of {call.name} gave {type(found).__name__}, not HttpAnswer")
        return packed(found)

    async def _listen(self, call: wire.HostCall) -> AsyncIterator[Raw]:
        async for message in _find(self._channels, call.name).listen():
            yield packed(message)

    async def _send(self, call: wire.HostCall) -> Raw:
        return packed(await _find(self._channels, call.name).send(unpacked(call.payload, Outbound)))

    async def _typing(self, call: wire.HostCall) -> Raw:
        channel = _find(self._channels, call.name)
        if isinstance(channel, ShowsTyping):
            await channel.typing(unpacked(call.payload, Address))
        return packed(None)

    async def _stream(self, call: wire.HostCall) -> AsyncIterator[Raw]:
        asked = unpacked(call.payload, wire.ProviderInput)
        provider = self._provider(call.name, asked.endpoint)
        events = provider.stream(asked.request)
        async with aclosing(events):  # type: ignore[type-var]
            async for event in events:
                yield packed(wire.streamed(event))

    async def _embed(self, call: wire.HostCall) -> Raw:
        asked = unpacked(call.payload, wire.EmbedInput)
        embedder = self._embedder(call.name, asked.endpoint)
        if asked.query and isinstance(embedder, EmbedsQueries):
            vectors = [await embedder.embed_query(text) for text in asked.texts]
        else:
            vectors = list(await embedder.embed(asked.texts)) if asked.texts else []
        return packed(
            wire.EmbedOutput(
                vectors=tuple(tuple(vector) for vector in vectors),
                model=embedder.model,
                traits=embedder.traits if isinstance(embedder, HasTraits) else Traits(),
            )
        )

    def _provider(self, name: str, endpoint: Endpoint) -> Provider:
        key = (name, bytes(wire.packed_with_credentials(endpoint)))
        if key not in self._providers:
            self._providers[key] = _find(self._brought.providers, name)(endpoint)
        return self._providers[key]

    def _embedder(self, name: str, endpoint: EmbedderEndpoint) -> Embedder:
        key = (name, bytes(wire.packed_with_credentials(endpoint)))
        if key not in self._embedders:
            self._embedders[key] = _find(self._brought.embedders, name)(endpoint)
        return self._embedders[key]


def declaration(brought: Brought) -> wire.Ready:
    """What was registered, as the gateway is told."""
    return wire.Ready(
        tools=tuple(
            wire.ToolDeclared(
                spec=tool.spec, effects=effects_of(tool).value, optional=tool.spec.name in brought.optional_tools
            )
            for tool in brought.tools
        ),
        hooks=tuple(
            wire.HookDeclared(
                point=hook.point, priority=hook.priority, timeout_ms=hook.timeout_ms, matcher=tuple(hook.matcher)
            )
            for hook in brought.hooks
        ),
        commands=tuple(
            wire.CommandDeclared(name=each.name, description=each.description, args=each.args)
            for each in brought.commands
        ),
        methods=tuple(wire.MethodDeclared(name=each.name, scope=each.scope) for each in brought.methods),
        routes=tuple(
            wire.RouteDeclared(path=each.path, auth=each.auth, match=each.match, scope=each.scope)
            for each in brought.routes
        ),
        channels=tuple(
            wire.ChannelDeclared(name=each.name, types=isinstance(each, ShowsTyping)) for each in brought.channels
        ),
        providers=tuple(brought.providers),
        embedders=tuple(brought.embedders),
        services=tuple(brought.services),
    )


def effects_of(tool: Tool) -> Effects:
    """What calls of a tool can do at most, as far as it says so before any call; all there is when it cannot say."""
    with _unless_it_fails() as found:
        found.append(tool.effects({}))
    return found[0] if found else ~Effects.NONE


@contextmanager
def _unless_it_fails() -> Iterator[list[Effects]]:
    found: list[Effects] = []
    try:
        yield found
    except Exception:  # the plugin's own code, asked about arguments it does not have
        found.clear()


def _find(table: Mapping[str, Any], name: str) -> Any:
    if name not in table:
        raise NotFound(f"the plugin has registered nothing called {name}")
    return table[name]
