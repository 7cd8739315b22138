"""Decides when a session resets by itself: daily at an hour, or after idle time. Pure."""

from datetime import datetime, timedelta, tzinfo
from typing import Literal

from msgspec import Struct, structs

from openclaw.core.keys import SessionKey
from openclaw.sessions.settings import ResetByType, ResetSettings, SessionSettings

AT_HOUR = 4
NO_TYPES = ResetByType()
Reason = Literal["daily", "idle"]


class LastContact(Struct, frozen=True):
    """When a conversation began and when a person last wrote, in milliseconds."""

    started: int
    last: int


def policy_of(settings: SessionSettings, key: SessionKey, channel: str = "") -> ResetSettings | None:
    """The reset policy of a session; None when it never resets by itself.

    A channel's policy replaces all others; one for a kind of conversation is merged over the general one. A policy
    without a mode is `daily`.
    """
    policy = settings.reset_by_channel.get(channel) if channel else None
    if policy is None:
        policy = settings.reset
        special = getattr(settings.reset_by_type, _kind(key)) if settings.reset_by_type != NO_TYPES else None
        if special is not None:
            given = {name: value for name, value in structs.asdict(special).items() if value is not None}
            policy = structs.replace(policy or special, **given)
    if policy is None or policy.mode == "none":
        return None
    return policy if policy.mode else structs.replace(policy, mode="daily")


def reset_reason(policy: ResetSettings, contact: LastContact, now_ms: int, zone: tzinfo) -> Reason | None:
    """Why a session must reset now; the earlier of the two when both apply."""
    expired: list[tuple[int, Reason]] = []
    if policy.mode == "daily":
        boundary = _latest(now_ms, AT_HOUR if policy.at_hour is None else policy.at_hour, zone)
        if contact.started < boundary:
            expired.append((boundary, "daily"))
    if policy.idle_minutes:
        ends = contact.last + policy.idle_minutes * 60_000
        if now_ms > ends:
            expired.append((ends, "idle"))
    return min(expired)[1] if expired else None


def _kind(key: SessionKey) -> Literal["direct", "group", "thread"]:
    if ":thread:" in key.rest or ":topic:" in key.rest:
        return "thread"
    return "group" if key.route is not None and key.route.kind != "direct" else "direct"


def _latest(now_ms: int, hour: int, zone: tzinfo) -> int:
    """The latest moment at which the local time was `hour`."""
    now = datetime.fromtimestamp(now_ms / 1000, zone)
    boundary = now.replace(hour=hour, minute=0, second=0, microsecond=0, fold=0)
    if boundary.timestamp() * 1000 > now_ms:
        boundary = (now - timedelta(days=1)).replace(hour=hour, minute=0, second=0, microsecond=0, fold=0)
    return round(boundary.timestamp() * 1000)
