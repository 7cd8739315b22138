"""Wraps what a plugin's process brings as tools, hooks, channels and providers that call through its pipe."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, TypeVar

from msgspec import Raw, Struct, structs

from openclaw.core import errors
from openclaw.core.channel import Address, Inbound, Outbound, Receipt
from openclaw.core.embedder import EmbedderEndpoint, Traits, Vector
from openclaw.core.events import ModelEvent
from openclaw.core.plugin import CommandReply, HttpAnswer, PluginContributions, PluginFailed
from openclaw.core.provider import Endpoint, ModelRequest
from openclaw.core.tool import Effects, Output, ToolContext
from openclaw.plugins import wire
from openclaw.plugins.process import PluginProcess
from openclaw.plugins.wire import encode_payload, encode_with_credentials

SEND_SECONDS = 60.0
T = TypeVar("T", bound=Struct)


def make_proxies(process: PluginProcess, ready: wire.Ready) -> PluginContributions:
    """Everything the plugin registered, as proxies."""

    def proxied(each: T, op: wire.Op, name: str, answer: type[Any]) -> T:
        async def run(asked: Any) -> Any:
            return await process.call(op, name, encode_payload(asked), answer)

        return structs.replace(each, run=run)

    return PluginContributions(
        tools=tuple(ProxiedTool(process, tool) for tool in ready.tools),
        optional_tools=frozenset(tool.spec.name for tool in ready.tools if tool.optional),
        hooks=tuple(
            structs.replace(each, run=partial(_ask_hook, process, str(number)))
            for number, each in enumerate(ready.hooks)
        ),
        commands=tuple(proxied(each, "command", each.name, CommandReply) for each in ready.commands),
        methods=tuple(proxied(each, "method", each.name, object) for each in ready.methods),
        routes=tuple(proxied(each, "route", each.path, HttpAnswer) for each in ready.routes),
        channels=tuple(
            (TypingChannel if each.types else ProxiedChannel)(process, each.name) for each in ready.channels
        ),
        providers={name: partial(ProxiedProvider, process, name) for name in ready.providers},
        embedders={name: partial(ProxiedEmbedder, process, name) for name in ready.embedders},
    )


async def _ask_hook(process: PluginProcess, number: str, event: Any, context: Any) -> Any:
    asked = wire.HookInput(encode_payload(event), encode_payload(context))
    return await process.call("hook", number, encode_payload(asked), object)


class ProxiedTool:
    """`Tool` in another process. Its effects are the same for every call: those it declared."""

    def __init__(self, process: PluginProcess, declared: wire.ToolDeclared) -> None:
        self._process = process
        self.spec = declared.spec
        # Unknown flags are dropped; a number out of range counts as all of them.
        self._effects = Effects(declared.effects & (~Effects.NONE).value) if declared.effects >= 0 else ~Effects.NONE

    def effects(self, args: Mapping[str, Any]) -> Effects:
        return self._effects

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        return frozenset()  # calls that need something exclusively wait for each other in the plugin

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        asked = wire.copy_fields(context, wire.ToolInput, args=dict(args), workspace=str(context.workspace))

        def report(progress: Raw) -> None:
            context.report(wire.decode_payload(progress, str))

        payload = encode_payload(asked)
        try:
            found = await self._process.call("tool", self.spec.name, payload, wire.ToolOutput, report=report)
        except errors.OpenClawError as error:
            return Output.failed(error.message)
        return Output(**structs.asdict(found))


class ProxiedChannel:
    """`Channel` in another process."""

    def __init__(self, process: PluginProcess, name: str) -> None:
        self._process = process
        self.name = name

    async def listen(self) -> AsyncIterator[Inbound]:
        async with aclosing(self._process.stream("listen", self.name, encode_payload(None), Inbound)) as heard:  # type: ignore[type-var]
            async for message in heard:
                # A plugin speaks for its own channel only, whatever it writes into the message.
                yield structs.replace(message, channel=self.name)

    async def send(self, message: Outbound) -> Receipt:
        return await self._process.call("send", self.name, encode_payload(message), Receipt, seconds=SEND_SECONDS)


class TypingChannel(ProxiedChannel):
    async def typing(self, to: Address) -> None:
        await self._process.call("typing", self.name, encode_payload(to), object, seconds=SEND_SECONDS)


class ProxiedProvider:
    """`Provider` in another process."""

    def __init__(self, process: PluginProcess, name: str, endpoint: Endpoint) -> None:
        self._process = process
        self._name = name
        self._endpoint = endpoint

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        asked = encode_with_credentials(wire.ProviderInput(endpoint=self._endpoint, request=request))
        try:
            async with aclosing(self._process.stream("stream", self._name, asked, wire.Streamed)) as events:  # type: ignore[type-var]
                async for event in events:
                    yield wire.model_event(event)
        except errors.OpenClawError as error:
            raise _provider_error(error) from error

    async def close(self) -> None:
        """Does nothing: what the plugin keeps open ends with its process."""


class ProxiedEmbedder:
    """`Embedder` in another process."""

    def __init__(self, process: PluginProcess, name: str, endpoint: EmbedderEndpoint) -> None:
        self._process = process
        self._name = name
        self._endpoint = endpoint
        self.prepared = False
        self.model = endpoint.model or name
        self.traits = Traits()

    async def prepare(self) -> None:
        found = await self._asked(())
        self.model, self.traits, self.prepared = found.model, found.traits, True

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        return (await self._vectors(texts)).vectors

    async def embed_query(self, text: str) -> Vector:
        return (await self._vectors((text,), query=True)).vectors[0]

    async def _vectors(self, texts: Sequence[str], *, query: bool = False) -> wire.EmbedOutput:
        if not self.prepared:
            await self.prepare()
        found = await self._asked(texts, query=query)
        if len(found.vectors) != len(texts):
            raise errors.BadResponse(f"{self._name} gave {len(found.vectors)} vectors for {len(texts)} texts")
        if found.model != self.model:
            # Vectors of two models cannot be compared, and nothing would show it.
            raise errors.ProviderError(f"{self._name} answered with {found.model}, and its model was {self.model}")
        return found

    async def _asked(self, texts: Sequence[str], *, query: bool = False) -> wire.EmbedOutput:
        asked = wire.EmbedInput(endpoint=self._endpoint, texts=tuple(texts), query=query)
        try:
            return await self._process.call("embed", self._name, encode_with_credentials(asked), wire.EmbedOutput)
        except errors.OpenClawError as error:
            raise _provider_error(error) from error

    async def close(self) -> None:
        """Does nothing: what the plugin keeps open ends with its process."""


def _provider_error(error: errors.OpenClawError) -> errors.ProviderError:
    """A failure as an error of the provider seam; one that the plugin chose by name keeps its kind."""
    if isinstance(error, PluginFailed):
        kind = getattr(errors, error.kind, None)
        if isinstance(kind, type) and issubclass(kind, errors.ProviderError):
            return kind(error.message)
        if error.kind == "Gone":
            return errors.ServerFailed(error.message)
        if error.kind == "Timeout":
            return errors.ProviderTimeout(error.message)
    return errors.ProviderError(error.message)
