"""Chat: send, read back, stop."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from openclaw.wire.params.kinds import NonEmpty, NonNegative, Params, Positive, all_different, exactly_one, not_both
from openclaw.wire.params.shared import AttachmentParam, InputProvenance, Mentions, PermissionMode, SessionToolOverrides


class WorkContext(Params, frozen=True, kw_only=True):
    page: Annotated[str, Meta(min_length=1, max_length=64)]
    title: Annotated[str, Meta(max_length=96)] | None = None
    session_key: Annotated[str, Meta(max_length=192)] | None = None
    session_id: Annotated[str, Meta(max_length=64)] | None = None
    agent_id: Annotated[str, Meta(max_length=64)] | None = None
    workspace: Annotated[str, Meta(max_length=224)] | None = None
    file: Annotated[str, Meta(max_length=224)] | None = None
    selection: Annotated[str, Meta(max_length=640)] | None = None


class SendIntent(Params, frozen=True, kw_only=True):
    kind: Literal["session-goal-start"]
    version: Literal[1]
    issued_at_ms: NonNegative


class ChatSendParams(Params, frozen=True, kw_only=True):
    """Params of `chat.send`."""

    session_key: Annotated[str, Meta(min_length=1, max_length=512)]
    agent_id: NonEmpty | None = None
    session_id: NonEmpty | None = None
    message: str
    mentions: Mentions | None = None
    work_context: WorkContext | None = None
    intent: SendIntent | None = None
    thinking: str | None = None
    fast_mode: Literal["auto"] | bool | None = None
    fast_auto_on_seconds: Positive | None = None
    queue_mode: Literal["steer", "followup", "collect", "interrupt"] | None = None
    deliver: bool | None = None
    originating_channel: str | None = None
    originating_to: str | None = None
    originating_account_id: str | None = None
    originating_thread_id: str | None = None
    reply_to_id: NonEmpty | None = None
    attachments: tuple[AttachmentParam, ...] | None = None
    tool_bindings: Annotated[dict[str, Any], Meta(max_length=16)] | None = None
    timeout_ms: NonNegative | None = None
    system_input_provenance: InputProvenance | None = None
    system_provenance_receipt: str | None = None
    suppress_command_interpretation: bool | None = None
    expected_leaf_entry_id: NonEmpty | UnsetType | None = UNSET
    expected_session_routing_contract: NonEmpty | None = None
    expected_permission_mode: PermissionMode | UnsetType | None = UNSET
    expected_tool_overrides: SessionToolOverrides | UnsetType | None = UNSET
    idempotency_key: NonEmpty


class ChatHistoryParams(Params, frozen=True, kw_only=True):
    """Params of `chat.history`."""

    session_key: NonEmpty
    agent_id: NonEmpty | None = None
    cursor: str | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] | None = None
    max_bytes: Annotated[int, Meta(ge=1024)] | None = None
    offset: NonNegative | None = None
    pending_before: Positive | None = None
    input_run_ids: (
        Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=256)], ...], Meta(min_length=1, max_length=50)]
        | None
    ) = None
    message_id: NonEmpty | None = None
    session_id: NonEmpty | None = None
    max_chars: Annotated[int, Meta(ge=1, le=500_000)] | None = None

    def __post_init__(self) -> None:
        all_different(inputRunIds=self.input_run_ids)


class ChatStartupParams(Params, frozen=True, kw_only=True):
    """Params of `chat.startup`."""

    session_key: NonEmpty | None = None
    agent_id: NonEmpty | None = None
    cursor: str | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] | None = None
    max_bytes: Annotated[int, Meta(ge=1024)] | None = None
    offset: NonNegative | None = None
    pending_before: Positive | None = None
    input_run_ids: (
        Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=256)], ...], Meta(min_length=1, max_length=50)]
        | None
    ) = None
    message_id: NonEmpty | None = None
    session_id: NonEmpty | None = None
    max_chars: Annotated[int, Meta(ge=1, le=500_000)] | None = None
    short_id: NonEmpty | None = None
    slug_hint: NonEmpty | None = None

    def __post_init__(self) -> None:
        exactly_one(sessionKey=self.session_key, shortId=self.short_id)
        all_different(inputRunIds=self.input_run_ids)
        if self.short_id is not None and self.agent_id is None:
            raise ValueError("must have required property 'agentId'")


class ChatAbortParams(Params, frozen=True, kw_only=True):
    """Params of `chat.abort`."""

    session_key: NonEmpty
    agent_id: NonEmpty | None = None
    run_id: NonEmpty | None = None
    preserve_side_runs: bool | None = None


class ChatInjectParams(Params, frozen=True, kw_only=True):
    """Params of `chat.inject`."""

    session_key: NonEmpty
    agent_id: NonEmpty | None = None
    message: NonEmpty
    label: Annotated[str, Meta(max_length=100)] | None = None


class ChatMetadataParams(Params, frozen=True, kw_only=True):
    """Params of `chat.metadata`."""

    agent_id: NonEmpty | None = None
    auth_profile_id: Annotated[str, Meta(min_length=1, max_length=256)] | None = None
    session_key: NonEmpty | None = None

    def __post_init__(self) -> None:
        not_both(sessionKey=self.session_key, authProfileId=self.auth_profile_id)


class ChatMessageGetParams(Params, frozen=True, kw_only=True):
    """Params of `chat.message.get`."""

    session_key: NonEmpty
    agent_id: NonEmpty | None = None
    message_id: NonEmpty
    max_chars: Annotated[int, Meta(ge=1, le=2_000_000)] | None = None
