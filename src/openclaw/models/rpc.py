"""Params of the `models.*` methods, and a model as they return it."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from openclaw.core.provider import Model
from openclaw.models import thinking
from openclaw.protocol.params import NonEmpty, Params, not_both


def model_to_json(found: Model, *, available: bool, tags: tuple[str, ...] = ()) -> dict[str, Any]:
    levels = thinking.supported_levels(found)
    return {
        "id": found.id,
        "name": found.name or found.id,
        "provider": found.provider,
        "contextWindow": found.context_window,
        "reasoning": found.reasoning,
        "input": list(found.input),
        "tags": list(tags),
        "thinkingLevels": [{"id": level, "label": level} for level in levels],
        "thinkingDefault": "medium" if found.reasoning else "off",
        "available": available,
    }


class ModelsListParams(Params, frozen=True, kw_only=True):
    """Params of `models.list`."""

    agent_id: NonEmpty | None = None
    session_key: NonEmpty | None = None
    auth_profile_id: Annotated[str, Meta(min_length=1, max_length=256)] | None = None
    provider: NonEmpty | None = None
    include_details: bool | None = None
    include_provider_capabilities: bool | None = None
    include_default_models: bool | None = None
    prepared_only: bool | None = None
    refresh: bool | None = None
    view: Literal["default", "configured", "provider-config", "all"] | None = None

    def __post_init__(self) -> None:
        not_both(sessionKey=self.session_key, authProfileId=self.auth_profile_id)
        not_both(preparedOnly=self.prepared_only or None, refresh=self.refresh or None)


class ModelsAuthStatusParams(Params, frozen=True, kw_only=True):
    """Params of `models.authStatus`."""

    refresh: bool | None = None
    agent_id: str | None = None
