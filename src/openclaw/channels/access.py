"""Decides who may start a turn on a channel, and in which session. Pure.

Checked in this order: is the channel enabled, is the group allowed, is the sender allowed, was the assistant mentioned.
"""

import re
from collections.abc import Collection, Iterable

from msgspec import Struct

from openclaw.channels.settings import ChannelSettings, GroupSettings
from openclaw.core.channel import Inbound
from openclaw.core.keys import peer_part
from openclaw.core.text import neutralise, sanitize_block, sanitize_line
from openclaw.security.settings import Id

EVERYBODY = "*"
LABEL_CHARS = 60


class Admit(Struct, frozen=True):
    """The message is processed; `owner` says whether the owner wrote it, whose text alone is trusted."""

    owner: bool


class AskToPair(Struct, frozen=True):
    """An unknown sender: the message is dropped, and the owner may approve the sender."""


class Ignore(Struct, frozen=True):
    why: str


Verdict = Admit | AskToPair | Ignore


def judge(
    message: Inbound,
    settings: ChannelSettings | None,
    owners: Collection[str],
    paired: Collection[str] = (),
    *,
    command: bool = False,
) -> Verdict:
    """Whether `message` may start a turn. `paired` are the approved senders; `command` says that it is a command."""
    owner = f"{message.channel}:{message.sender}" in owners
    if settings is not None and not settings.enabled:
        return Ignore(f"channels.{message.channel}.enabled is false")
    if message.group is not None:
        return _in_group(message, settings, owner, command)
    if owner:
        return Admit(owner=True)
    return _direct(message, settings, paired)


def _direct(message: Inbound, settings: ChannelSettings | None, paired: Collection[str]) -> Verdict:
    name, sender = message.channel, message.sender
    if settings is None:
        return Ignore(
            f"to let {sender} in, add {name}:{sender} to commands.ownerAllowFrom, or set channels.{name}.dmPolicy"
        )
    if settings.dm_policy == "disabled":
        return Ignore(f"channels.{name}.dmPolicy is disabled")
    # Approved senders stay allowed under `pairing`; under the other policies only the list counts.
    known = set(settings.allow_from) | (set(paired) if settings.dm_policy == "pairing" else set())
    if _listed(message, known):
        return Admit(owner=False)
    if settings.dm_policy == "pairing":
        return AskToPair()
    return Ignore(f"{sender} is not in channels.{name}.allowFrom")


def _in_group(message: Inbound, settings: ChannelSettings | None, owner: bool, command: bool) -> Verdict:
    name, group = message.channel, str(message.group)
    if settings is None or settings.group_policy == "disabled":
        return Ignore(f"groups are not heard: set channels.{name}.groupPolicy and groups")
    rules = settings.groups.get(group) or settings.groups.get(EVERYBODY)
    if rules is None and (settings.groups or settings.group_policy == "allowlist"):
        return Ignore(f"to hear the group {group}, add it to channels.{name}.groups")
    rules = rules or GroupSettings()
    if not rules.enabled:
        return Ignore(f"channels.{name}.groups.{group}.enabled is false")
    allowed = rules.allow_from if rules.allow_from is not None else settings.group_allow_from
    allowed = settings.allow_from if allowed is None else allowed
    anybody = settings.group_policy == "open" and not allowed
    if not (owner or anybody or _listed(message, allowed)):
        return Ignore(f"{message.sender} is not in channels.{name}.groupAllowFrom")
    every = settings.groups.get(EVERYBODY)
    asked = rules.require_mention if rules.require_mention is not None else every and every.require_mention
    if asked is not False and not (message.mentioned or (owner and command)):
        return Ignore("it does not mention the assistant")
    return Admit(owner=owner)


def _listed(message: Inbound, names: Iterable[Id]) -> bool:
    known = {str(name).strip() for name in names}
    return bool(known & {EVERYBODY, message.sender, f"{message.channel}:{message.sender}"})


def session_key_of(message: Inbound, *, owner: bool, scope: str) -> str:
    """The session key `message` belongs to. Only the owner's direct messages can share the main session."""
    account = "" if message.account == "default" else f":{peer_part(message.account)}"
    if message.group is not None:
        thread = f":thread:{peer_part(message.thread)}" if message.thread else ""
        return f"{peer_part(message.channel)}{account}:group:{peer_part(message.group)}{thread}"
    if owner and scope == "main":
        return "main"
    if owner and scope == "per-peer":
        return f"direct:{peer_part(message.sender)}"
    return f"{peer_part(message.channel)}{account}:direct:{peer_part(message.sender)}"


def to_prompt_text(message: Inbound, *, owner: bool) -> str:
    """The text for the model: prefixed with the sender's name, unless the owner writes alone."""
    if owner and message.group is None:
        return message.text
    who = " ".join(sanitize_line(f"{message.sender_name or ''} {message.sender}".replace("\n", " ")).split())[
        :LABEL_CHARS
    ]
    name = sanitize_line(message.channel)
    # A line that looks like such a prefix would attribute words to somebody else.
    text = re.sub(rf"(?m)^(\s*)\[(?={re.escape(name)}\b)", r"\1(", neutralise(sanitize_block(message.text)))
    return f"[{name} {who.replace('[', '(').replace(']', ')')}] {text}"
