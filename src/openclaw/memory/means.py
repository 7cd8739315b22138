"""What makes vectors for an index: the chosen embedder, its second, and the pause after a failure."""

from collections.abc import Callable

import msgspec

from openclaw.core.clock import Clock
from openclaw.core.embedder import Embedder, EmbedderEndpoint, Prepares
from openclaw.core.errors import OpenClawError, ProviderError
from openclaw.memory.choose import EmbedderChoice, provider_key
from openclaw.memory.database import IndexIdentity
from openclaw.memory.embedding import CheckedVectors
from openclaw.memory.sync import SyncPlan
from openclaw.memory.writing import KEYWORDS_ONLY

RESTS_SECONDS = 60.0
"""After a failure the embedder is left alone this long."""

Build = Callable[[EmbedderEndpoint], Embedder]


class EmbedderPool:
    """Holds at most one open embedder. Used from the event loop only."""

    def __init__(
        self, choice: EmbedderChoice, build: Build, clock: Clock, fallback: EmbedderChoice | None = None
    ) -> None:
        self.choice = choice
        self.fell_back = ""
        """Why the second choice is used, when it is."""
        self._build = build
        self._clock = clock
        self._fallback = fallback
        self._open: CheckedVectors | None = None
        self._retired: list[CheckedVectors] = []
        self._rests_until = 0.0
        self._why = ""

    def vectors(self) -> CheckedVectors | None:
        """The embedder; None when there is none."""
        if self._open is None and self.choice.endpoint is not None:
            try:
                self._open = CheckedVectors(self._build(self.choice.endpoint), self._clock)
            except OpenClawError as error:
                self.choice = EmbedderChoice(why=error.message, strict=self.choice.strict)
        return self._open

    async def prepared(self) -> None:
        """Returns when it is known what model there is. One that cannot say counts as failed."""
        while (asked := self._unknown()) is not None and not self.resting():
            try:
                await asked.prepare()
            except ProviderError as error:
                self.failed(error)

    def _unknown(self) -> Prepares | None:
        vectors = self.vectors()
        asked: object = vectors.embedder if vectors else None
        return asked if isinstance(asked, Prepares) and not asked.prepared else None

    def resting(self) -> str:
        """Why the embedder is left alone just now; nothing when it is not."""
        return self._why if self._clock.now() < self._rests_until else ""

    def failed(self, error: ProviderError) -> bool:
        """Takes note of a failure; True when the second choice takes over, whose vectors are others."""
        if self._fallback is None:
            self._rests_until, self._why = self._clock.now() + RESTS_SECONDS, error.message
            return False
        self.fell_back = f"{self.choice.provider}: {error.message}"
        self.choice, self._fallback = self._fallback, None
        if self._open is not None:
            self._retired.append(self._open)
            self._open = None
        return True

    async def tried(self) -> str:
        """Asks for one vector; gives why there is none, nothing when there is."""
        vectors = self.vectors()
        if vectors is None:
            return self.choice.why
        try:
            await vectors.query("a question", 0)
        except ProviderError as error:
            return error.message
        return ""

    def identity(self, plan: SyncPlan) -> IndexIdentity:
        """What an index made now would be made with."""
        # An index made while the model is unknown has words alone, and is made anew when the model is known.
        vectors = None if self._unknown() else self.vectors()
        endpoint = self.choice.endpoint
        return IndexIdentity(
            model=vectors.model if vectors else KEYWORDS_ONLY,
            provider=self.choice.provider,
            provider_key=provider_key(endpoint, vectors.traits.max_bytes) if endpoint and vectors else "",
            sources=plan.sources,
            scope_hash=plan.scope.digest,
            chunk_tokens=plan.tokens,
            chunk_overlap=plan.overlap,
        )

    async def close(self) -> None:
        for vectors in (*self._retired, *((self._open,) if self._open else ())):
            await vectors.close()
        self._retired, self._open = [], None


def fits(known: IndexIdentity, wanted: IndexIdentity) -> bool:
    """Whether an index can be kept: made alike, or only without the vectors that nobody can ask for now."""
    if wanted.model == KEYWORDS_ONLY:
        wanted = msgspec.structs.replace(
            wanted, model=known.model, provider=known.provider, provider_key=known.provider_key
        )
    return known.same(wanted)
