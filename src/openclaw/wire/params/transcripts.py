"""What is in a conversation: finding words, going back, the plan."""

from typing import Annotated

from msgspec import Meta

from openclaw.wire.params.kinds import NonEmpty, Params


class SessionsSearchParams(Params, frozen=True, kw_only=True):
    """Params of `sessions.search`. The protocol's `scope` is not taken: name the conversations instead."""

    query: Annotated[str, Meta(min_length=1, max_length=4096)]
    agent_id: NonEmpty | None = None
    session_keys: Annotated[tuple[NonEmpty, ...], Meta(min_length=1, max_length=200)] | None = None
    limit: Annotated[int, Meta(ge=1, le=25)] | None = None


class SessionsRewindParams(Params, frozen=True, kw_only=True):
    """Params of `sessions.rewind`."""

    session_key: NonEmpty
    entry_id: NonEmpty
    agent_id: NonEmpty | None = None


class ProgressCardGetParams(Params, frozen=True, kw_only=True):
    """Params of `progressCard.get`."""

    session_key: NonEmpty
    agent_id: NonEmpty | None = None


class ChatImagesGetParams(Params, frozen=True, kw_only=True):
    """Params of `chat.images.get`, which only we have."""

    session_key: NonEmpty
    message_id: NonEmpty
    agent_id: NonEmpty | None = None
