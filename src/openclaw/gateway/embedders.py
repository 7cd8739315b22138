"""The embedders a memory can choose from: ours, and those that plugins bring."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec import Struct, structs

from openclaw.core.embedder import Embedder, EmbedderEndpoint, EmbedsQueries, HasTraits, Prepares, Traits, Vector
from openclaw.core.errors import OpenClawError, ProviderError, ServerFailed
from openclaw.core.plugin import OpensEmbedder
from openclaw.embedders.catalog import embedder_problem, open_embedder
from openclaw.memory.settings import BUILT_IN

if TYPE_CHECKING:
    from openclaw.core.clock import Clock
    from openclaw.gateway.surroundings import Environment
    from openclaw.plugins.find import FoundPlugin
    from openclaw.plugins.settings import PluginsSettings

T = TypeVar("T")


class BringsEmbedders(Protocol):
    """The plugins that run."""

    async def ready(self) -> None: ...

    def embedder(self, name: str) -> OpensEmbedder | None: ...


class EmbedderRegistry:
    """Opens an embedder by its name."""

    def __init__(self, plugins: Callable[[], BringsEmbedders]) -> None:
        self._plugins = plugins

    def build(self, endpoint: EmbedderEndpoint) -> Embedder:
        if endpoint.provider not in BUILT_IN:
            return PluginEmbedder(endpoint, self._plugins())
        return open_embedder(endpoint)

    def problem(self, endpoint: EmbedderEndpoint) -> str:
        """What keeps an embedder from being used. Of a plugin that is seen when it is used: it may come later."""
        if endpoint.provider not in BUILT_IN:
            return ""
        return embedder_problem(endpoint)


class _Open(Struct, frozen=True):
    """What a plugin opened for us, and what it said of its model."""

    opens: OpensEmbedder
    embedder: Embedder
    model: str
    traits: Traits


class PluginEmbedder:
    """`Embedder` by a plugin's name. The plugin is looked up for every call: it may go, and come back as another."""

    def __init__(self, endpoint: EmbedderEndpoint, plugins: BringsEmbedders) -> None:
        self._endpoint = endpoint
        self._plugins = plugins
        self._open: _Open | None = None
        self._opening = asyncio.Lock()

    @property
    def prepared(self) -> bool:
        # Another plugin behind the name may have another model, so it is asked anew. While there is none, what the
        # last one said holds: the index it made can still be kept.
        opens = self._plugins.embedder(self._endpoint.provider)
        return self._open is not None and opens in (None, self._open.opens)

    @property
    def model(self) -> str:
        return self._open.model if self._open else self._endpoint.model

    @property
    def traits(self) -> Traits:
        return self._open.traits if self._open else Traits()

    async def prepare(self) -> None:
        await self._found()

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        embedder = await self._same()
        return await self._translated(embedder.embed(texts))

    async def embed_query(self, text: str) -> Vector:
        embedder = await self._same()
        if isinstance(embedder, EmbedsQueries):
            return await self._translated(embedder.embed_query(text))
        found = await self._translated(embedder.embed([text]))
        return found[0]

    async def close(self) -> None:
        if self._open is not None:
            await self._open.embedder.close()

    async def _same(self) -> Embedder:
        """The embedder, unless it became another one since it was asked what it is."""
        before = self._open
        now = await self._found()
        if before is not None and (before.model, before.traits) != (now.model, now.traits):
            raise ProviderError(f"the embedder {self._endpoint.provider} has another model now: {now.model}")
        return now.embedder

    async def _found(self) -> _Open:
        name = self._endpoint.provider
        try:
            await self._plugins.ready()
        except OpenClawError as error:
            raise ServerFailed(f"plugins were not started, so there is no embedder {name}: {error.message}") from error
        async with self._opening:
            opens = self._plugins.embedder(name)
            if opens is None:
                raise ServerFailed(
                    f"no plugin that runs brings an embedder {name}: see openclaw plugins list, or choose one of "
                    f"{', '.join(('auto', *BUILT_IN))}"
                )
            if self._open is None or self._open.opens is not opens:
                self._open = await self._translated(self._opened(opens))
            return self._open

    async def _opened(self, opens: OpensEmbedder) -> _Open:
        embedder = opens(self._endpoint)
        if isinstance(embedder, Prepares):
            await embedder.prepare()
        traits = embedder.traits if isinstance(embedder, HasTraits) else Traits()
        return _Open(opens, embedder, embedder.model, traits)

    async def _translated(self, asked: Awaitable[T]) -> T:
        try:
            return await asked
        except ProviderError:
            raise
        # The code of a plugin that runs in this process: what it raises is its answer.
        except Exception as error:
            raise ProviderError(f"the embedder {self._endpoint.provider} failed: {error}") from error


@asynccontextmanager
async def for_one_command(
    names: Iterable[str], plugins: "PluginsSettings", surroundings: "Environment", clock: "Clock"
) -> AsyncIterator[EmbedderRegistry]:
    """The embedders for a command that runs without a gateway: only plugins that declare one of `names` are started."""
    foreign = frozenset(names) - {*BUILT_IN, "auto", "none"}
    if not foreign:
        yield EmbedderRegistry(NoPlugins)
        return
    from openclaw.gateway.plugins import PluginRegistry
    from openclaw.hooks.dispatch import HookDispatcher
    from openclaw.plugins.find import look
    from openclaw.skills.roots import expanded

    state, home = surroundings.home.state, surroundings.home_dir
    found, _ = look([expanded(text, home, home) for text in plugins.load.paths], state / "extensions")
    wanted = _with_needed([each for each in found if foreign & set(each.manifest.contracts.embedders)], found)
    narrowed = structs.replace(plugins, deny=(*plugins.deny, *({each.id for each in found} - wanted)))
    hooks = HookDispatcher(clock)
    extensions = PluginRegistry(state, home, clock, lambda: hooks, lambda: narrowed)
    try:
        yield EmbedderRegistry(lambda: extensions)
    finally:
        await extensions.close()
        await hooks.close()


class NoPlugins:
    """`BringsEmbedders` where none does."""

    async def ready(self) -> None:
        """There is nothing to wait for."""

    def embedder(self, name: str) -> OpensEmbedder | None:
        return None


def _with_needed(plugins: "Iterable[FoundPlugin]", found: "Iterable[FoundPlugin]") -> set[str]:
    """Ids of `plugins` and of what they need to run."""
    known = {each.id: each for each in found}
    wanted: set[str] = set()
    pending = [each.id for each in plugins]
    while pending:
        name = pending.pop()
        if name not in wanted and name in known:
            wanted.add(name)
            pending += known[name].manifest.requires_plugins
    return wanted
