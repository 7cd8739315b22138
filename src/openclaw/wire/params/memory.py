"""Memory."""

from typing import Annotated

from msgspec import Meta

from openclaw.wire.params.kinds import NonEmpty, Params


class MemorySearchParams(Params, frozen=True, kw_only=True):
    """Params of `memory.search`."""

    query: Annotated[str, Meta(min_length=1, max_length=4000)]
    agent_id: NonEmpty | None = None
    max_results: Annotated[int, Meta(ge=1, le=50)] | None = None
    min_score: Annotated[float, Meta(ge=0, le=1)] | None = None


class MemoryStatusParams(Params, frozen=True, kw_only=True):
    """Params of `memory.status`."""

    agent_id: NonEmpty | None = None


class MemoryNotesListParams(Params, frozen=True, kw_only=True):
    """Params of `memory.notes.list`."""

    agent_id: NonEmpty | None = None


class MemoryNotesGetParams(Params, frozen=True, kw_only=True):
    """Params of `memory.notes.get`."""

    path: NonEmpty
    agent_id: NonEmpty | None = None


class MemoryNotesSetParams(Params, frozen=True, kw_only=True):
    """Params of `memory.notes.set`. Without a hash the note must not be there yet."""

    path: NonEmpty
    content: Annotated[str, Meta(max_length=1_000_000)]
    agent_id: NonEmpty | None = None
    expected_hash: Annotated[str, Meta(min_length=64, max_length=64, pattern=r"^[a-fA-F0-9]{64}$")] | None = None
