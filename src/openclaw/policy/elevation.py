"""Whether a run in a sandbox may have commands outside it. Pure."""

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from openclaw.core.keys import SessionKey, peer_part
from openclaw.policy.narrowing import AgentElevated, ElevatedSettings, Id

Level = Literal["off", "on", "ask", "full"]
LEVELS: tuple[Level, ...] = ("off", "on", "ask", "full")
ElevatedDefault = Literal["off", "on", "ask", "full"] | bool


class Speaker(Struct, frozen=True, kw_only=True):
    """Who is behind a run, as far as the gateway itself has checked it."""

    channel: str = ""
    id: str = ""
    owner: bool = False


def speaker(key: SessionKey, owners: Sequence[str]) -> Speaker:
    """Who speaks in a session, as far as its key tells. What nobody typed has no owner behind it."""
    route = key.route
    if route is None:
        return Speaker(owner=not (key.is_cron or key.is_hook or key.is_subagent))
    direct = route.kind == "direct"
    # An id means somebody only together with its channel: 7 on one platform is not 7 on another.
    named = any(_is(name.strip(), route.channel, route.peer) for name in owners)
    return Speaker(channel=route.channel, id=route.peer if direct else "", owner=direct and named)


def _is(name: str, channel: str, peer: str) -> bool:
    """Whether a configured name (an id, or `channel:id`) is the one that a key has as `peer`."""
    place, colon, rest = name.partition(":")
    if colon and place.lower() != channel:
        return False
    return peer in {rest, peer_part(rest)} if colon else peer in {name, peer_part(name)}


def is_shared(key: SessionKey, owners: Sequence[str]) -> bool:
    """Whether somebody else than the owner speaks in a session, as far as its key tells."""
    return key.route is not None and not speaker(key, owners).owner


class ElevationRequest(Struct, frozen=True):
    """What /elevated was set to in a session, and when."""

    level: Level
    at: int


class Elevation(Struct, frozen=True):
    """The level of a run, and why it is no higher."""

    level: Level
    why: str = ""


NOT_ELEVATED = Elevation("off")


def elevation(
    speaker: Speaker,
    shared: ElevatedSettings,
    own: AgentElevated,
    default: ElevatedDefault | None,
    acknowledged: bool,
    said: ElevationRequest | None,
    now: int,
) -> Elevation:
    """The level that holds: what the session was set to while it lasts, else the default as far as that is allowed."""
    if why := refuse_reason(speaker, shared, own):
        return Elevation("off", why)
    lasts = shared.expires_minutes * 60_000
    if said is not None and (not lasts or now - said.at < lasts):
        return Elevation(said.level, "" if said.level != "off" else "it is switched off: /elevated on")
    level: Level = "on" if default is True else default or "off"
    if level == "off":
        return Elevation("off", "it is switched off: /elevated on")
    # A default holds for everybody who can reach the session, so it counts only where somebody said who that is.
    named = [name for names in shared.allow_from.values() for name in names]
    if not acknowledged or not named or "*" in map(str, named):
        return Elevation(
            "ask", "agents.defaults.acknowledgeElevatedDefault or a named tools.elevated.allowFrom is missing"
        )
    return Elevation(level)


def refuse_reason(speaker: Speaker, shared: ElevatedSettings, own: AgentElevated) -> str:
    """Why this speaker may not have it at all; empty when they may."""
    for settings, name in ((shared, "tools.elevated"), (own, "agents.list[].tools.elevated")):
        if not settings.enabled:
            return f"{name}.enabled is false"
    if not speaker.owner and not _named(speaker, shared.allow_from):
        return f"{speaker.channel or 'this kind of session'} is not in tools.elevated.allowFrom"
    if own.allow_from and not speaker.owner and not _named(speaker, own.allow_from):
        return f"{speaker.channel or 'this kind of session'} is not in agents.list[].tools.elevated.allowFrom"
    return ""


def _named(speaker: Speaker, allowed: Mapping[str, Sequence[Id]]) -> bool:
    if not speaker.channel or not speaker.id:
        return False
    names = [str(name) for name in allowed.get(speaker.channel, ())]
    return "*" in names or speaker.id in names or any(_is(name, speaker.channel, speaker.id) for name in names)
