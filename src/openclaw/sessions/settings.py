"""Settings of `session`."""

import re
from functools import lru_cache
from typing import Annotated, Literal

from msgspec import Meta, field

from openclaw.core.provider import ThinkingLevel
from openclaw.core.settings import Millis, Settings, doc

Size = int | Annotated[str, Meta(pattern=r"^\d+(\.\d+)?\s*([kKmMgG]?[bB])?$")]
"""Bytes, or with a unit: 2mb."""
Span = Annotated[str, Meta(pattern=r"^\d+(\.\d+)?\s*(ms|s|m|h|d)?$")]
"""A time with a unit, 5m or 1h; minutes without one."""


class QualityGuardSettings(Settings, frozen=True):
    """`compaction.qualityGuard`: a summary is checked before it replaces anything."""

    enabled: Annotated[bool, doc("check headings, the open request and identifiers")] = True
    max_retries: Annotated[int, doc("how often a poor summary is asked for again", ge=0)] = 1


class MidTurnSettings(Settings, frozen=True):
    """`compaction.midTurnPrecheck`: looking at the size between the steps of a turn."""

    enabled: Annotated[bool, doc("compact between two steps instead of waiting for the model to refuse")] = False


class MemoryFlushSettings(Settings, frozen=True):
    """`compaction.memoryFlush`: a silent turn that writes lasting notes before a compaction."""

    enabled: Annotated[bool, doc("let the assistant write notes to memory/ before it forgets the details")] = True
    model: Annotated[str | None, doc("the model for it; the session's when absent")] = None
    soft_threshold_tokens: Annotated[int, doc("how long before a compaction, in tokens", ge=0)] = 4_000
    force_flush_transcript_bytes: Annotated[
        Size, doc("also when the conversation takes this much on disk, such as 2mb; 0 never")
    ] = "2mb"


class CompactionSettings(Settings, frozen=True):
    """`compaction`: what happens when a conversation outgrows its model."""

    enabled: Annotated[bool, doc("compact by itself; /compact works either way")] = True
    mode: Annotated[Literal["default", "safeguard"], doc("safeguard asks for fixed headings and checks them")] = (
        "safeguard"
    )
    model: Annotated[str | None, doc("the model that summarises; the session's and its fallbacks when absent")] = None
    thinking_level: Annotated[
        ThinkingLevel | Literal["inherit"] | None, doc("how hard to think about a summary; low when absent")
    ] = None
    keep_recent_tokens: Annotated[int, doc("how much of the end stays word for word", ge=0)] = 20_000
    identifier_policy: Annotated[Literal["strict", "off"], doc("strict keeps ids, paths, dates to the letter")] = (
        "strict"
    )
    recent_turns_preserve: Annotated[int, doc("latest turns quoted beside the summary", ge=0, le=12)] = 3
    quality_guard: Annotated[QualityGuardSettings, doc("checks on a summary")] = QualityGuardSettings()
    mid_turn_precheck: Annotated[MidTurnSettings, doc("checks between the steps of a turn")] = MidTurnSettings()
    timeout_seconds: Annotated[float, doc("longest time for one compaction; 0 means no limit", ge=0)] = 900
    memory_flush: Annotated[MemoryFlushSettings, doc("notes before a compaction")] = MemoryFlushSettings()
    post_compaction_sections: Annotated[
        tuple[str, ...], doc("headings of AGENTS.md whose sections stand behind every summary, word for word")
    ] = ()
    notify_user: Annotated[bool, doc("say when a compaction begins and ends, where the answer goes")] = False
    max_active_transcript_bytes: Annotated[
        Size, doc("also compact when the conversation takes this much on disk, such as 8mb; 0 never")
    ] = 0


class ToolFilter(Settings, frozen=True):
    """Tool names, * for any characters."""

    allow: Annotated[tuple[str, ...], doc("only these; all when empty")] = ()
    deny: Annotated[tuple[str, ...], doc("never these")] = ()


class HardClearSettings(Settings, frozen=True):
    """`contextPruning.hardClear`: taking old results out altogether."""

    enabled: Annotated[bool, doc("clear the oldest results when shortening was not enough")] = True
    placeholder: Annotated[str, doc("what stands in their place", min_length=1)] = "[Old tool result content cleared]"


class PruningSettings(Settings, frozen=True):
    """`contextPruning`: old tool results are shown shortened; the transcript keeps them whole."""

    mode: Annotated[
        Literal["off", "cache-ttl"] | None,
        doc("cache-ttl prunes once the provider's cache is cold; by model if absent"),
    ] = None
    ttl: Annotated[Span | None, doc("how long a cache stays warm, such as 5m or 1h")] = None
    tools: Annotated[ToolFilter, doc("whose results may be pruned")] = ToolFilter()
    hard_clear: Annotated[HardClearSettings, doc("taking old results out altogether")] = HardClearSettings()


Hour = Annotated[int, Meta(ge=0, le=23)]
Minutes = Annotated[int, Meta(ge=0)]


class WriteLockSettings(Settings, frozen=True):
    """`session.writeLock`: one writer a session."""

    acquire_timeout_ms: Annotated[Millis, doc("longest wait for the lock before the session counts as busy")] = 60_000
    stale_ms: Annotated[Millis, doc("accepted, without effect: a dead owner's lock is free at once")] = 1_800_000
    max_hold_ms: Annotated[Millis, doc("accepted, without effect: a live owner keeps its lock")] = 300_000


class ResetSettings(Settings, frozen=True):
    """`session.reset`: when a conversation starts over by itself."""

    mode: Annotated[
        Literal["none", "daily", "idle"] | None, doc("never, once a day, or after a silence; daily when left out")
    ] = None
    at_hour: Annotated[Hour | None, doc("the hour of the day, 4 when left out")] = None
    idle_minutes: Annotated[Minutes | None, doc("minutes without a word from a person; counts beside daily too")] = None


class ResetByType(Settings, frozen=True):
    """`session.resetByType`: other rules for a kind of conversation."""

    direct: Annotated[ResetSettings | None, doc("conversations with one person")] = None
    group: Annotated[ResetSettings | None, doc("groups and channels")] = None
    thread: Annotated[ResetSettings | None, doc("threads and topics")] = None


class SendMatch(Settings, frozen=True):
    """What a rule of `session.sendPolicy` is about; all that is given must be so."""

    channel: Annotated[str, doc("a channel, such as telegram")] = ""
    chat_type: Annotated[Literal["direct", "group", "channel"] | None, doc("a kind of conversation")] = None
    key_prefix: Annotated[str, doc("how the session key begins, without agent:<id>:")] = ""
    raw_key_prefix: Annotated[str, doc("how the whole session key begins")] = ""


class SendRule(Settings, frozen=True):
    """One rule of `session.sendPolicy`."""

    action: Annotated[Literal["allow", "deny"], doc("what it says; a rule that denies wins")]
    match: Annotated[SendMatch, doc("what it is about; everything when left out")] = SendMatch()


class SendPolicySettings(Settings, frozen=True):
    """`session.sendPolicy`: whether answers leave a conversation for its channel; /send says so for one."""

    default: Annotated[Literal["allow", "deny"], doc("when no rule fits")] = "allow"
    rules: Annotated[tuple[SendRule, ...], doc("exceptions")] = ()


class MaintenanceSettings(Settings, frozen=True):
    """`session.maintenance`: how long is kept what programs left behind."""

    mode: Annotated[Literal["enforce", "warn"], doc("do it, or only write to the log what would be done")] = "enforce"
    prune_after: Annotated[Span, doc("how long conversations of webhooks and sub-agents stay that nobody uses")] = "30d"
    max_entries: Annotated[
        int, doc("more conversations than this, and the oldest of webhooks and sub-agents go sooner", ge=1)
    ] = 5_000
    reset_archive_retention: Annotated[
        Span | Literal[False], doc("how long transcripts stay that /new or deleting has set aside; false keeps them")
    ] = False
    max_disk_bytes: Annotated[
        Size,
        doc("more than this on disk, and transcripts that were set aside go, then the oldest of programs; 0 never"),
    ] = 0
    high_water_bytes: Annotated[Size | None, doc("down to this; 80 % of maxDiskBytes when left out")] = None


class ThreadBindingSettings(Settings, frozen=True):
    """`session.threadBindings`: threads of chats that belong to a sub-agent."""

    enabled: Annotated[bool, doc("messages in such a thread go to its sub-agent")] = True
    spawn_sessions: Annotated[bool, doc("sub-agents may be started in a thread of their own")] = True
    idle_hours: Annotated[float, doc("a thread nobody has used for so long is let go; 0 never", ge=0)] = 24
    max_age_hours: Annotated[float, doc("a thread is let go after so long; 0 never", ge=0)] = 0
    default_spawn_context: Annotated[
        Literal["isolated", "fork"], doc("whether a sub-agent in a thread begins with the conversation so far")
    ] = "fork"


class SessionSettings(Settings, frozen=True):
    """`session`: how conversations are kept apart and kept whole."""

    scope: Annotated[Literal["per-sender", "global"], doc("one conversation per sender, or one for all")] = "per-sender"
    dm_scope: Annotated[
        Literal["main", "per-peer", "per-channel-peer", "per-account-channel-peer"],
        doc("which direct messages share a conversation"),
    ] = "main"
    main_key: Annotated[str, doc("name of the main conversation", min_length=1, max_length=128)] = "main"
    reset: Annotated[ResetSettings | None, doc("when conversations start over by themselves; never when left out")] = (
        None
    )
    reset_by_type: Annotated[ResetByType, doc("rules for a kind of conversation, over session.reset")] = ResetByType()
    reset_by_channel: Annotated[dict[str, ResetSettings], doc("rules for a channel, instead of all others")] = field(
        default_factory=dict
    )
    reset_triggers: Annotated[
        tuple[Annotated[str, Meta(pattern=r"^\S(.*\S)?$")], ...],
        doc("messages that begin a new conversation beside /new and /reset; text behind one is its first message"),
    ] = ("/new", "/reset")
    send_policy: Annotated[SendPolicySettings, doc("whether answers leave a conversation")] = SendPolicySettings()
    identity_links: Annotated[
        dict[str, tuple[str, ...]],
        doc("a person's ids on channels (channel:id) by a name: with dmScope per-peer they share a conversation"),
    ] = field(default_factory=dict)
    maintenance: Annotated[MaintenanceSettings, doc("what is removed in time")] = MaintenanceSettings()
    thread_bindings: Annotated[ThreadBindingSettings, doc("threads of sub-agents")] = ThreadBindingSettings()
    write_lock: Annotated[WriteLockSettings, doc("the lock that keeps a session to one writer")] = WriteLockSettings()


_NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]*)")
_BYTES = {"": 1, "b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}
_SECONDS = {"ms": 0.001, "s": 1.0, "": 60.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


@lru_cache
def size_of(value: int | str) -> int:
    """Bytes: `2mb` is 2,097,152."""
    if isinstance(value, int):
        return value
    number, unit = _parts(value)
    return int(number * _BYTES[unit.lower()])


def seconds_of(value: str) -> float:
    """Seconds: `5m` is 300; a bare number counts minutes."""
    number, unit = _parts(value)
    return number * _SECONDS[unit]


def _parts(value: str) -> tuple[float, str]:
    found = _NUMBER.fullmatch(value.strip())
    if found is None:
        raise ValueError(f"not a number with a unit: {value!r}")
    return float(found[1]), found[2]
