"""Settings of `session`."""

from typing import Annotated, Literal

from msgspec import Meta, field

from openclaw.core.settings import Millis, Settings, doc

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
    write_lock: Annotated[WriteLockSettings, doc("the lock that keeps a session to one writer")] = WriteLockSettings()
