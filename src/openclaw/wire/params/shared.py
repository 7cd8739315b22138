"""Shapes that several methods take."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta

from openclaw.wire.params.kinds import NonEmpty, Params

PermissionMode = Literal["read-only", "guarded", "workspace", "full"]


class HumanMention(Params, frozen=True, kw_only=True):
    """A person named in a message, and where."""

    profile_id: Annotated[str, Meta(min_length=1, max_length=256)]
    start: Annotated[int, Meta(ge=0, le=9_007_199_254_740_991)]
    end: Annotated[int, Meta(ge=1, le=9_007_199_254_740_991)]


Mentions = Annotated[tuple[HumanMention, ...], Meta(max_length=10)]


class AttachmentParam(Params, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """A file that travels with a message; what it is may be said in more fields than these."""

    type: str | None = None
    mime_type: str | None = None
    file_name: str | None = None
    origin: Literal["paste", "file"] | None = None
    content: Any = UNSET
    size_bytes: float | None = None
    duration_ms: float | None = None
    width: float | None = None
    height: float | None = None


class InputProvenance(Params, frozen=True, kw_only=True):
    """Where a message that no person typed came from."""

    kind: Literal["external_user", "inter_session", "internal_system"]
    origin_session_id: str | None = None
    source_session_key: str | None = None
    source_channel: str | None = None
    source_tool: str | None = None
    source_role: Literal["subagent"] | None = None
    source_prompt_prefix: str | None = None
    job_id: str | None = None
    run_id: str | None = None


class SessionToolOverrides(Params, frozen=True, kw_only=True):
    """Tools switched on or off for one session."""

    mcp_servers: dict[str, bool] | None = None
    mcp_tools_deny: dict[str, tuple[NonEmpty, ...]] | None = None
    skills: dict[str, bool] | None = None
    web_search: bool | None = None
