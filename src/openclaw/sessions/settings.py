"""Settings of `session`."""

from typing import Annotated, Literal

from openclaw.core.settings import Millis, Settings, doc


class WriteLockSettings(Settings, frozen=True):
    """`session.writeLock`: one writer a session."""

    acquire_timeout_ms: Annotated[Millis, doc("longest wait for the lock before the session counts as busy")] = 60_000
    stale_ms: Annotated[Millis, doc("accepted, without effect: a dead owner's lock is free at once")] = 1_800_000
    max_hold_ms: Annotated[Millis, doc("accepted, without effect: a live owner keeps its lock")] = 300_000


class SessionSettings(Settings, frozen=True):
    """`session`: how conversations are kept apart and kept whole."""

    scope: Annotated[Literal["per-sender", "global"], doc("one conversation per sender, or one for all")] = "per-sender"
    dm_scope: Annotated[
        Literal["main", "per-peer", "per-channel-peer", "per-account-channel-peer"],
        doc("which direct messages share a conversation"),
    ] = "main"
    main_key: Annotated[str, doc("name of the main conversation", min_length=1, max_length=128)] = "main"
    write_lock: Annotated[WriteLockSettings, doc("the lock that keeps a session to one writer")] = WriteLockSettings()
