"""Params of the `sessions.*` methods, and of the chat methods beside them.

A type is named after its method: `SessionsListParams` is for `sessions.list`.
"""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from openclaw.protocol.params import (
    AttachmentParam,
    Mentions,
    NonEmpty,
    NonNegative,
    Params,
    PermissionMode,
    Positive,
    SessionKeyParams,
    SessionToolOverrides,
)


class KeyParams(Params, frozen=True, kw_only=True):
    """For a method about one session."""

    key: NonEmpty
    agent_id: NonEmpty | None = None


class ProfileRelation(Params, frozen=True, kw_only=True):
    profile_id: NonEmpty
    relationship: Literal["owned", "created", "involving"]


class SessionsListParams(Params, frozen=True, kw_only=True):
    limit: Positive | None = None
    offset: NonNegative | None = None
    active_minutes: Positive | None = None
    active_only: bool | None = None
    require_last_interaction: bool | None = None
    sort_by: Literal["updatedAt", "lastInteractionAt", "activity"] | None = None
    include_global: bool | None = None
    include_unknown: bool | None = None
    exclude_subagents: bool | None = None
    exclude_cron: bool | None = None
    exclude_system: bool | None = None
    configured_agents_only: bool | None = None
    include_derived_titles: bool | None = None
    include_last_message: bool | None = None
    include_activity_summary: bool | None = None
    label: Annotated[str, Meta(min_length=1, max_length=512)] | None = None
    project_id: NonEmpty | None = None
    workspace_dir: NonEmpty | None = None
    group: str | None = None
    pinned: bool | None = None
    board_face: Literal["chat", "dashboard"] | None = None
    has_board: bool | None = None
    creator_id: NonEmpty | None = None
    owner_id: NonEmpty | None = None
    owner_first: bool | None = None
    involving_me: bool | None = None
    profile_relation: ProfileRelation | None = None
    involving_profile_id: NonEmpty | None = None
    include_people: bool | None = None
    spawned_by: NonEmpty | None = None
    agent_id: NonEmpty | None = None
    search: str | None = None
    archived: Literal["all"] | bool | None = None


class SessionsMessagesSubscribeParams(KeyParams, frozen=True, kw_only=True):
    include_approvals: bool | None = None


class SessionsMessagesUnsubscribeParams(KeyParams, frozen=True, kw_only=True):
    pass


class SessionsDescribeParams(KeyParams, frozen=True, kw_only=True):
    include_derived_titles: bool | None = None
    include_last_message: bool | None = None


class SessionReference(Params, frozen=True, kw_only=True):
    key: NonEmpty
    slug: NonEmpty | None = None


class SessionsResolveParams(Params, frozen=True, kw_only=True):
    key: NonEmpty | None = None
    session_id: NonEmpty | None = None
    label: Annotated[str, Meta(min_length=1, max_length=512)] | None = None
    reference: SessionReference | None = None
    short_id: NonEmpty | None = None
    slug_hint: NonEmpty | None = None
    agent_id: NonEmpty | None = None
    spawned_by: NonEmpty | None = None
    include_global: bool | None = None
    include_unknown: bool | None = None
    allow_missing: bool | None = None


class SessionsOverviewParams(Params, frozen=True, kw_only=True):
    """Params of `sessions.overview`, an extension of ours: the list as the command line shows it."""

    agent_id: NonEmpty | None = None
    limit: Positive | None = None


class SessionsPreviewParams(Params, frozen=True, kw_only=True):
    keys: Annotated[tuple[NonEmpty, ...], Meta(min_length=1)]
    limit: Positive | None = None
    max_chars: Annotated[int, Meta(ge=20)] | None = None


class SessionsUsageParams(Params, frozen=True, kw_only=True):
    key: NonEmpty | None = None
    agent_id: NonEmpty | None = None
    agent_scope: Literal["all"] | None = None
    creator_key: NonEmpty | None = None
    start_date: Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}$")] | None = None
    end_date: Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}$")] | None = None
    mode: Literal["utc", "gateway", "specific"] | None = None
    range: Literal["7d", "30d", "90d", "1y", "all"] | None = None
    group_by: Literal["instance", "family"] | None = None
    include_historical: bool | None = None
    utc_offset: Annotated[str, Meta(pattern=r"^UTC[+-]\d{1,2}(?::[0-5]\d)?$")] | None = None
    time_zone: NonEmpty | None = None
    limit: Positive | None = None
    include_context_weight: bool | None = None


class SessionRepositorySource(Params, frozen=True, kw_only=True):
    url: Annotated[str, Meta(min_length=1, max_length=2048)]
    ref: Annotated[str, Meta(min_length=1, max_length=1024)] | None = None


class SessionsCreateParams(Params, frozen=True, kw_only=True):
    key: NonEmpty | None = None
    idempotency_key: NonEmpty | None = None
    agent_id: NonEmpty | None = None
    label: Annotated[str, Meta(min_length=1, max_length=512)] | None = None
    display_name: Annotated[str, Meta(min_length=1, max_length=500)] | None = None
    title_source: Annotated[str, Meta(max_length=1000)] | None = None
    category: Annotated[str, Meta(min_length=1, max_length=512)] | None = None
    model: NonEmpty | None = None
    agent_runtime: NonEmpty | None = None
    context_window: NonEmpty | None = None
    thinking_level: NonEmpty | None = None
    fast_mode: Literal["auto"] | bool | None = None
    permission_mode: PermissionMode | None = None
    tool_overrides: SessionToolOverrides | None = None
    incognito: bool | None = None
    visibility: Literal["shared", "read-only", "suggest", "draft"] | None = None
    catalog_id: NonEmpty | None = None
    parent_session_key: NonEmpty | None = None
    spawn_depth: Positive | None = None
    fork: bool | None = None
    fork_from: Literal["last-completed"] | None = None
    emit_command_hooks: bool | None = None
    succeeds_parent: bool | None = None
    timeout_ms: NonNegative | None = None
    task: str | None = None
    message: str | None = None
    mentions: Mentions | None = None
    attachments: tuple[AttachmentParam, ...] | None = None
    project_id: NonEmpty | None = None
    project_git_url: Annotated[str, Meta(min_length=1, max_length=2048)] | None = None
    repository: SessionRepositorySource | None = None
    worktree: bool | None = None
    worktree_source: Literal["empty"] | None = None
    worktree_base_ref: NonEmpty | None = None
    worktree_name: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")] | None = None
    exec_node: NonEmpty | None = None
    cwd: NonEmpty | None = None


class SessionsSendParams(KeyParams, frozen=True, kw_only=True):
    message: str
    mentions: Mentions | None = None
    thinking: str | None = None
    attachments: tuple[AttachmentParam, ...] | None = None
    timeout_ms: NonNegative | None = None
    idempotency_key: NonEmpty | None = None


class SessionsAbortParams(Params, frozen=True, kw_only=True):
    key: NonEmpty | None = None
    run_id: NonEmpty | None = None
    agent_id: NonEmpty | None = None
    clear_queued: bool | None = None


class SessionsPatchParams(KeyParams, frozen=True, kw_only=True):
    expected_session_id: NonEmpty | None = None
    expected_lifecycle_revision: NonEmpty | None = None
    expected_permission_mode: PermissionMode | UnsetType | None = UNSET
    expected_sandbox_mode: Literal["off"] | UnsetType | None = UNSET
    expected_native_runtime_consent: NonEmpty | UnsetType | None = UNSET
    expected_tool_overrides: SessionToolOverrides | UnsetType | None = UNSET
    expected_marked_unread_at: Annotated[float, Meta(ge=0)] | UnsetType | None = UNSET
    label: Annotated[str, Meta(min_length=1, max_length=512)] | UnsetType | None = UNSET
    auto_label: Annotated[str, Meta(min_length=1, max_length=512)] | UnsetType | None = UNSET
    icon: str | UnsetType | None = UNSET
    color: str | UnsetType | None = UNSET
    category: Annotated[str, Meta(min_length=1, max_length=512)] | UnsetType | None = UNSET
    board_face: Literal["chat", "dashboard"] | None = None
    board_presentation: Literal["split", "expanded"] | UnsetType | None = UNSET
    status_note: Annotated[str, Meta(max_length=120)] | UnsetType | None = UNSET
    attention: Literal["hand", "key", "alert", "flag", "lock", "hourglass"] | UnsetType | None = UNSET
    ttl_minutes: Annotated[int, Meta(ge=1, le=120)] | None = None
    archived: bool | None = None
    pinned: bool | None = None
    unread: bool | None = None
    context_window: NonEmpty | UnsetType | None = UNSET
    thinking_level: NonEmpty | UnsetType | None = UNSET
    fast_mode: Literal["auto"] | bool | UnsetType | None = UNSET
    tool_overrides: SessionToolOverrides | UnsetType | None = UNSET
    verbose_level: NonEmpty | UnsetType | None = UNSET
    trace_level: NonEmpty | UnsetType | None = UNSET
    reasoning_level: NonEmpty | UnsetType | None = UNSET
    response_usage: Literal["off", "tokens", "full", "on"] | UnsetType | None = UNSET
    elevated_level: NonEmpty | UnsetType | None = UNSET
    exec_host: NonEmpty | UnsetType | None = UNSET
    exec_security: NonEmpty | UnsetType | None = UNSET
    exec_ask: NonEmpty | UnsetType | None = UNSET
    exec_node: NonEmpty | UnsetType | None = UNSET
    permission_mode: PermissionMode | UnsetType | None = UNSET
    sandbox_mode: Literal["off"] | UnsetType | None = UNSET
    native_runtime_consent: NonEmpty | UnsetType | None = UNSET
    model: NonEmpty | UnsetType | None = UNSET
    agent_runtime: NonEmpty | UnsetType | None = UNSET
    completion_owner_session_key: NonEmpty | UnsetType | None = UNSET
    inherited_tool_policy_version: Literal[1] | UnsetType | None = UNSET
    inherited_tool_allow: tuple[NonEmpty, ...] | UnsetType | None = UNSET
    inherited_tool_deny: tuple[NonEmpty, ...] | UnsetType | None = UNSET
    send_policy: Literal["allow", "deny"] | UnsetType | None = UNSET
    group_activation: Literal["mention", "always"] | UnsetType | None = UNSET


class SessionsResetParams(KeyParams, frozen=True, kw_only=True):
    reason: Literal["new", "reset"] | None = None
    expected_session_id: NonEmpty | None = None


class SessionsDeleteParams(KeyParams, frozen=True, kw_only=True):
    delete_transcript: bool | None = None
    expected_session_id: NonEmpty | None = None
    expected_lifecycle_revision: NonEmpty | None = None
    expected_session_updated_at: Annotated[float, Meta(ge=0)] | None = None
    emit_lifecycle_hooks: bool | None = None
    archived_only: bool | None = None


class SessionsCompactParams(KeyParams, frozen=True, kw_only=True):
    max_lines: Positive | None = None


class SessionsGetParams(Params, frozen=True, kw_only=True):
    key: str
    limit: int | None = None


class SessionsSearchParams(Params, frozen=True, kw_only=True):
    """Params of `sessions.search`. The protocol's `scope` is not supported: use `session_keys`."""

    query: Annotated[str, Meta(min_length=1, max_length=4096)]
    agent_id: NonEmpty | None = None
    session_keys: Annotated[tuple[NonEmpty, ...], Meta(min_length=1, max_length=200)] | None = None
    limit: Annotated[int, Meta(ge=1, le=25)] | None = None


class SessionsRewindParams(SessionKeyParams, frozen=True, kw_only=True):
    entry_id: NonEmpty


class ProgressCardGetParams(SessionKeyParams, frozen=True, kw_only=True):
    pass


class ChatImagesGetParams(SessionKeyParams, frozen=True, kw_only=True):
    """An extension of ours."""

    message_id: NonEmpty
