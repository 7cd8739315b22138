"""Settings of `session`."""

import re
from functools import lru_cache
from typing import Annotated, Literal

from msgspec import Meta, field

from openclaw.core.provider import ThinkingLevel
from openclaw.core.settings import Millis, Settings

Size = int | Annotated[str, Meta(pattern=r"^\d+(\.\d+)?\s*([kKmMgG]?[bB])?$")]
"""Bytes, or with a unit: 2mb."""
Span = Annotated[str, Meta(pattern=r"^\d+(\.\d+)?\s*(ms|s|m|h|d)?$")]
"""A time with a unit, 5m or 1h; minutes without one."""


class QualityGuardSettings(Settings, frozen=True):
    """`compaction.qualityGuard`: a summary is checked before it replaces anything."""

    enabled: bool = True
    """check headings, the open request and identifiers"""
    max_retries: Annotated[int, Meta(ge=0)] = 1
    """how often a poor summary is asked for again"""


class MidTurnSettings(Settings, frozen=True):
    """`compaction.midTurnPrecheck`: looking at the size between the steps of a turn."""

    enabled: bool = False
    """compact between two steps instead of waiting for the model to refuse"""


class MemoryFlushSettings(Settings, frozen=True):
    """`compaction.memoryFlush`: a silent turn that writes lasting notes before a compaction."""

    enabled: bool = True
    """let the assistant write notes to memory/ before it forgets the details"""
    model: str | None = None
    """the model for it; the session's when absent"""
    soft_threshold_tokens: Annotated[int, Meta(ge=0)] = 4_000
    """how long before a compaction, in tokens"""
    force_flush_transcript_bytes: Size = "2mb"
    """also when the conversation takes this much on disk, such as 2mb; 0 never"""


class CompactionSettings(Settings, frozen=True):
    """`compaction`: what happens when a conversation outgrows its model."""

    enabled: bool = True
    """compact by itself; /compact works either way"""
    mode: Literal["default", "safeguard"] = "safeguard"
    """safeguard asks for fixed headings and checks them"""
    model: str | None = None
    """the model that summarises; the session's and its fallbacks when absent"""
    thinking_level: ThinkingLevel | Literal["inherit"] | None = None
    """how hard to think about a summary; low when absent"""
    keep_recent_tokens: Annotated[int, Meta(ge=0)] = 20_000
    """how much of the end stays word for word"""
    identifier_policy: Literal["strict", "off"] = "strict"
    """strict keeps ids, paths, dates to the letter"""
    recent_turns_preserve: Annotated[int, Meta(ge=0, le=12)] = 3
    """latest turns quoted beside the summary"""
    quality_guard: QualityGuardSettings = QualityGuardSettings()
    """checks on a summary"""
    mid_turn_precheck: MidTurnSettings = MidTurnSettings()
    """checks between the steps of a turn"""
    timeout_seconds: Annotated[float, Meta(ge=0)] = 900
    """longest time for one compaction; 0 means no limit"""
    memory_flush: MemoryFlushSettings = MemoryFlushSettings()
    """notes before a compaction"""
    post_compaction_sections: tuple[str, ...] = ()
    """headings of AGENTS.md whose sections stand behind every summary, word for word"""
    notify_user: bool = False
    """say when a compaction begins and ends, where the answer goes"""
    max_active_transcript_bytes: Size = 0
    """also compact when the conversation takes this much on disk, such as 8mb; 0 never"""


class ToolFilter(Settings, frozen=True):
    """Tool names, * for any characters."""

    allow: tuple[str, ...] = ()
    """only these; all when empty"""
    deny: tuple[str, ...] = ()
    """never these"""


class HardClearSettings(Settings, frozen=True):
    """`contextPruning.hardClear`: taking old results out altogether."""

    enabled: bool = True
    """clear the oldest results when shortening was not enough"""
    placeholder: Annotated[str, Meta(min_length=1)] = "[Old tool result content cleared]"
    """what stands in their place"""


class PruningSettings(Settings, frozen=True):
    """`contextPruning`: old tool results are shown shortened; the transcript keeps them whole."""

    mode: Literal["off", "cache-ttl"] | None = None
    """cache-ttl prunes once the provider's cache is cold; by model if absent"""
    ttl: Span | None = None
    """how long a cache stays warm, such as 5m or 1h"""
    tools: ToolFilter = ToolFilter()
    """whose results may be pruned"""
    hard_clear: HardClearSettings = HardClearSettings()
    """taking old results out altogether"""


Hour = Annotated[int, Meta(ge=0, le=23)]
Minutes = Annotated[int, Meta(ge=0)]


class WriteLockSettings(Settings, frozen=True):
    """`session.writeLock`: one writer a session."""

    acquire_timeout_ms: Millis = 60_000
    """longest wait for the lock before the session counts as busy"""
    stale_ms: Millis = 1_800_000
    """accepted, without effect: a dead owner's lock is free at once"""
    max_hold_ms: Millis = 300_000
    """accepted, without effect: a live owner keeps its lock"""


class ResetSettings(Settings, frozen=True):
    """`session.reset`: when a conversation starts over by itself."""

    mode: Literal["none", "daily", "idle"] | None = None
    """never, once a day, or after a silence; daily when left out"""
    at_hour: Hour | None = None
    """the hour of the day, 4 when left out"""
    idle_minutes: Minutes | None = None
    """minutes without a word from a person; counts beside daily too"""


class ResetByType(Settings, frozen=True):
    """`session.resetByType`: other rules for a kind of conversation."""

    direct: ResetSettings | None = None
    """conversations with one person"""
    group: ResetSettings | None = None
    """groups and channels"""
    thread: ResetSettings | None = None
    """threads and topics"""


class SendMatch(Settings, frozen=True):
    """What a rule of `session.sendPolicy` is about; all that is given must be so."""

    channel: str = ""
    """a channel, such as telegram"""
    chat_type: Literal["direct", "group", "channel"] | None = None
    """a kind of conversation"""
    key_prefix: str = ""
    """how the session key begins, without agent:<id>:"""
    raw_key_prefix: str = ""
    """how the whole session key begins"""


class SendRule(Settings, frozen=True):
    """One rule of `session.sendPolicy`."""

    action: Literal["allow", "deny"]
    """what it says; a rule that denies wins"""
    match: SendMatch = SendMatch()
    """what it is about; everything when left out"""


class SendPolicySettings(Settings, frozen=True):
    """`session.sendPolicy`: whether answers leave a conversation for its channel; /send says so for one."""

    default: Literal["allow", "deny"] = "allow"
    """when no rule fits"""
    rules: tuple[SendRule, ...] = ()
    """exceptions"""


class MaintenanceSettings(Settings, frozen=True):
    """`session.maintenance`: how long is kept what programs left behind."""

    mode: Literal["enforce", "warn"] = "enforce"
    """do it, or only write to the log what would be done"""
    prune_after: Span = "30d"
    """how long conversations of webhooks and sub-agents stay that nobody uses"""
    max_entries: Annotated[int, Meta(ge=1)] = 5_000
    """more conversations than this, and the oldest of webhooks and sub-agents go sooner"""
    reset_archive_retention: Span | Literal[False] = False
    """how long transcripts stay that /new or deleting has set aside; false keeps them"""
    max_disk_bytes: Size = 0
    """more than this on disk, and transcripts that were set aside go, then the oldest of programs; 0 never"""
    high_water_bytes: Size | None = None
    """down to this; 80 % of maxDiskBytes when left out"""


class ThreadBindingSettings(Settings, frozen=True):
    """`session.threadBindings`: threads of chats that belong to a sub-agent."""

    enabled: bool = True
    """messages in such a thread go to its sub-agent"""
    spawn_sessions: bool = True
    """sub-agents may be started in a thread of their own"""
    idle_hours: Annotated[float, Meta(ge=0)] = 24
    """a thread nobody has used for so long is let go; 0 never"""
    max_age_hours: Annotated[float, Meta(ge=0)] = 0
    """a thread is let go after so long; 0 never"""
    default_spawn_context: Literal["isolated", "fork"] = "fork"
    """whether a sub-agent in a thread begins with the conversation so far"""


class SessionSettings(Settings, frozen=True):
    """`session`: how conversations are kept apart and kept whole."""

    scope: Literal["per-sender", "global"] = "per-sender"
    """one conversation per sender, or one for all"""
    dm_scope: Literal["main", "per-peer", "per-channel-peer", "per-account-channel-peer"] = "main"
    """which direct messages share a conversation"""
    main_key: Annotated[str, Meta(min_length=1, max_length=128)] = "main"
    """name of the main conversation"""
    reset: ResetSettings | None = None
    """when conversations start over by themselves; never when left out"""
    reset_by_type: ResetByType = ResetByType()
    """rules for a kind of conversation, over session.reset"""
    reset_by_channel: dict[str, ResetSettings] = field(default_factory=dict)
    """rules for a channel, instead of all others"""
    reset_triggers: tuple[Annotated[str, Meta(pattern=r"^\S(.*\S)?$")], ...] = ("/new", "/reset")
    """messages that begin a new conversation beside /new and /reset; text behind one is its first message"""
    send_policy: SendPolicySettings = SendPolicySettings()
    """whether answers leave a conversation"""
    identity_links: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """a person's ids on channels (channel:id) by a name: with dmScope per-peer they share a conversation"""
    maintenance: MaintenanceSettings = MaintenanceSettings()
    """what is removed in time"""
    thread_bindings: ThreadBindingSettings = ThreadBindingSettings()
    """threads of sub-agents"""
    write_lock: WriteLockSettings = WriteLockSettings()
    """the lock that keeps a session to one writer"""


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
