"""Decides who may start a turn on a channel, and in which session. Pure.

Checked in this order: is the channel enabled, is the group allowed, is the sender allowed, was the assistant mentioned.
"""

import re
from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct

from openclaw.channels.settings import ChannelSettings, GroupSettings
from openclaw.core.channel import Inbound
from openclaw.core.keys import peer_part
from openclaw.core.text import neutralise, sanitize_block, sanitize_line
from openclaw.security.settings import CommandsSettings, Id
from openclaw.sessions.settings import SessionSettings

EVERYBODY = "*"
LABEL_CHARS = 60
QUOTE_CHARS = 2_000
MOST_PEOPLE = 20


class Admit(Struct, frozen=True):
    """The message is processed; `owner` says whether the owner wrote it, whose text alone is trusted."""

    owner: bool


class AskToPair(Struct, frozen=True):
    """An unknown sender: the message is dropped, and the owner may approve the sender."""


class Ignore(Struct, frozen=True):
    why: str


class Overhear(Struct, frozen=True):
    """Somebody who may speak in a group did not speak to the assistant: it is told of it when it is next asked."""

    why: str


Verdict = Admit | AskToPair | Ignore | Overhear


def judge(
    message: Inbound,
    settings: ChannelSettings | None,
    owners: Collection[str],
    paired: Collection[str] = (),
    *,
    command: bool = False,
    activation: str | None = None,
) -> Verdict:
    """Whether `message` may start a turn.

    `paired` are the approved senders; `command` says that it is a command; `activation` is what was chosen for its
    group with /activation.
    """
    owner = f"{message.channel}:{message.sender}" in owners
    if settings is not None and not settings.enabled:
        return Ignore(f"channels.{message.channel}.enabled is false")
    if message.group is not None:
        return _in_group(message, settings, owner, command, activation)
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


def _in_group(
    message: Inbound, settings: ChannelSettings | None, owner: bool, command: bool, activation: str | None
) -> Verdict:
    name, group = message.channel, str(message.group)
    if settings is None or settings.group_policy == "disabled":
        return Ignore(f"groups are not heard: set channels.{name}.groupPolicy and groups")
    rules = settings.rules_of(group, message.space)
    if rules is None and (settings.names_groups() or settings.group_policy == "allowlist"):
        return Ignore(f"to hear the group {group}, add it to channels.{name}.groups")
    rules = rules or GroupSettings()
    if not rules.enabled:
        return Ignore(f"channels.{name}.groups.{group}.enabled is false")
    allowed = rules.allow_from if rules.allow_from is not None else settings.group_allow_from
    allowed = settings.allow_from if allowed is None else allowed
    anybody = settings.group_policy == "open" and not allowed
    if not (owner or anybody or _listed(message, allowed)):
        return Ignore(f"{message.sender} is not in channels.{name}.groupAllowFrom")
    asked = {"always": False, "mention": True}.get(activation or "", settings.wants_mention(group, message.space))
    if asked and not (message.mentioned or (owner and command)):
        return Overhear("it does not mention the assistant")
    return Admit(owner=owner)


def _listed(message: Inbound, names: Iterable[Id]) -> bool:
    known = {str(name).strip() for name in names}
    return bool(known & {EVERYBODY, message.sender, f"{message.channel}:{message.sender}"})


def may_command(message: Inbound, settings: CommandsSettings, *, owner: bool) -> bool:
    """Whether the sender's slash is a command; anyone else's is a word like any other."""
    if not settings.allow_from:
        return owner
    listed = (*settings.allow_from.get(message.channel, ()), *settings.allow_from.get(EVERYBODY, ()))
    return _listed(message, listed)


def session_key_of(message: Inbound, *, owner: bool, settings: SessionSettings, owners: Collection[str] = ()) -> str:
    """The session key `message` belongs to. Only the owner's direct messages can share the main session."""
    scope = settings.dm_scope
    account = "" if message.account == "default" else f":{peer_part(message.account)}"
    if message.group is not None:
        thread = f":thread:{peer_part(message.thread)}" if message.thread else ""
        return f"{peer_part(message.channel)}{account}:group:{peer_part(message.group)}{thread}"
    if owner and scope == "main":
        return "main"
    if owner and scope == "per-peer":
        ids = (message.sender, f"{message.channel}:{message.sender}")
        name = next((name for name, known in settings.identity_links.items() if set(ids) & set(known)), message.sender)
        return f"direct:{peer_part(name)}"
    if scope == "per-peer" and (first := _first_id(message, settings, owners)):
        channel, _, peer = first.partition(":")
        return f"{peer_part(channel)}:direct:{peer_part(peer)}"
    return f"{peer_part(message.channel)}{account}:direct:{peer_part(message.sender)}"


def _first_id(message: Inbound, settings: SessionSettings, owners: Collection[str]) -> str | None:
    """The first of a guest's linked ids, whose conversation all of them share; a link to the owner's is none."""
    for known in settings.identity_links.values():
        if f"{message.channel}:{message.sender}" in known and not set(known) & set(owners):
            return next((name for name in known if ":" in name), None)
    return None


SINCE_LAST = "[Chat messages since your last reply - for context]"
CURRENT = "[Current message - respond to this]"
_OUR_MARKS = re.compile(
    r"(?im)^(\s*)\[(?=/?replying\b|chat messages since\b|current message\b|group\b|media unavailable|attached:)"
)


def to_prompt_text(message: Inbound, *, owner: bool) -> str:
    """The text for the model: prefixed with the sender's name, unless the owner writes alone; with what it answers."""
    if owner and message.group is None:
        return _quoted(message) + message.text
    name = sanitize_line(message.channel)
    # A line that looks like such a prefix would attribute words to somebody else.
    text = re.sub(rf"(?m)^(\s*)\[(?={re.escape(name)}\b)", r"\1(", _plain(message.text))
    return f"{_quoted(message)}[{name} {_who(message.sender_name, message.sender)}] {text}"


def to_group_text(message: Inbound, before: Sequence[Inbound], owners: Collection[str]) -> str:
    """The text of a turn in a group: where it is, who spoke, what was said since the last turn, and what is asked."""
    place = _who(message.group_name, str(message.group))
    people = dict.fromkeys(_who(each.sender_name, each.sender) for each in (*before, message))
    head = f"[Group {place} on {sanitize_line(message.channel)}; heard: {', '.join(list(people)[:MOST_PEOPLE])}]"
    asked = to_prompt_text(message, owner=f"{message.channel}:{message.sender}" in owners)
    if not before:
        return f"{head}\n{asked}"
    said = "\n".join(to_prompt_text(each, owner=False) for each in before)
    return f"{head}\n{SINCE_LAST}\n{said}\n{CURRENT}\n{asked}"


def strangers_in(message: Inbound, before: Sequence[Inbound], owners: Collection[str]) -> list[str]:
    """Whose words a turn holds, beside the owner's and our own: of the sender, of others in the group, of a quote."""
    quote = message.quote
    senders = [each.sender for each in (*before, message)]
    if quote is not None and not quote.ours and quote.text.strip():
        senders.append(quote.sender or quote.sender_name or "somebody")
    return [name for name in dict.fromkeys(senders) if f"{message.channel}:{name}" not in owners]


def _quoted(message: Inbound) -> str:
    quote = message.quote
    if quote is None or not quote.text.strip():
        return ""
    who = "you" if quote.ours else _who(quote.sender_name, quote.sender)
    about = f"{who} id:{sanitize_line(quote.id)[:LABEL_CHARS]}"
    return f"[Replying to {about}]\n{_plain(quote.text)[:QUOTE_CHARS]}\n[/Replying]\n"


def _plain(text: str) -> str:
    """Somebody's words, in which nothing looks like a mark of ours."""
    return _OUR_MARKS.sub(r"\1(", neutralise(sanitize_block(text)))


def _who(name: str | None, sender: str) -> str:
    who = " ".join(sanitize_line(f"{name or ''} {sender}".replace("\n", " ")).split())[:LABEL_CHARS]
    return who.replace("[", "(").replace("]", ")")
