"""Settings of `channels`: who may write on which channel, and with which tools."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta, Struct, field

from openclaw.core.secret import Secret
from openclaw.core.settings import Millis, Settings
from openclaw.security.settings import Id, NarrowSettings


class DeliverySettings(Settings, frozen=True):
    """`delivery`: how messages to people on channels are sent."""

    unsure: Literal["resend", "hold"] = "resend"
    """a message that left without an answer from the platform: send it again, or hold it for you to decide"""


class GroupSettings(Settings, frozen=True):
    """`channels.<channel>.groups.<id>`: one group, or with * every group that is not named."""

    enabled: bool = True
    """hear this group"""
    require_mention: bool | None = None
    """hear only what mentions the assistant; true when nobody says"""
    allow_from: tuple[Id, ...] | None = None
    """who is heard in it, instead of groupAllowFrom"""
    tools: NarrowSettings = NarrowSettings()
    """tools in this group, out of those that remain"""
    tools_by_sender: Mapping[str, NarrowSettings] = field(default_factory=dict)
    """and by who speaks: channel:CHANNEL:ID, id:, e164:, username:, name: or *"""


class BlockStreaming(Settings, frozen=True):
    """`channels.<channel>.streaming.block`."""

    enabled: bool | None = None
    """send finished parts of an answer as messages; agents.defaults.blockStreamingDefault if unset"""


class StreamingSettings(Settings, frozen=True):
    """`channels.<channel>.streaming`: what people see of an answer while it is written."""

    mode: Literal["off", "partial", "block", "progress"] | None = None
    """edit one message: with the text so far, with whole paragraphs, or with the tools in use; partial if unset"""
    chunk_mode: Literal["length", "newline"] = "length"
    """a long answer is cut where it must be, or every paragraph is a message"""
    block: BlockStreaming = BlockStreaming()
    """finished parts as messages of their own"""


class CredentialFile(Struct, frozen=True):
    """A file that holds a credential, and the setting that names it."""

    path: str
    key: str


class ChannelSettings(Settings, frozen=True):
    """`channels.<channel>`: one place people talk. Without a section only the owner is heard, in direct messages.

    A built-in channel adds its own keys in a subclass. An account holds everything that its channel says, unless it
    says it differently itself; only what `OWN` names is never taken over.
    """

    LABEL: ClassVar[str] = ""
    """The channel as people call it."""
    OWN: ClassVar[tuple[str, ...]] = ()
    """Keys that say which account it is: two accounts that share them would be one."""
    CREDENTIALS: ClassVar[tuple[str, ...]] = ()
    """Keys that open an account; a new one takes the place of all of them."""
    MISSING: ClassVar[str] = ""
    """What to give when there is none."""
    VARIABLE: ClassVar[str] = ""
    """The environment variable that connects an account without any configuration."""
    ONE_ANSWER: ClassVar[bool] = False
    """Whether all that a run says is one message, at its end."""

    enabled: bool = True
    """hear anybody on it at all"""
    name: str = ""
    """what to call it in lists"""
    dm_policy: Literal["pairing", "allowlist", "open", "disabled"] = "pairing"
    """direct messages: strangers get a code for you to approve, are ignored, are heard, or nobody is heard"""
    allow_from: tuple[Id, ...] = ()
    """who is heard in direct messages; open needs *"""
    group_policy: Literal["allowlist", "open", "disabled"] = "allowlist"
    """groups: those listed, all, or none are heard"""
    group_allow_from: tuple[Id, ...] | None = None
    """who is heard in groups; allowFrom when left out"""
    groups: Mapping[str, GroupSettings] = field(default_factory=dict)
    """groups, channels and rooms by id; * for all others"""
    response_prefix: str | None = None
    """what answers on it begin with, instead of messages.responsePrefix; empty for nothing"""
    text_chunk_limit: Annotated[
        int,
        Meta(ge=0),
    ] = 0
    """the longest message, where the platform would take a longer one; 0 means what it takes"""
    history_limit: Millis | None = None
    """as messages.groupChat.historyLimit, for this channel"""
    media_max_mb: Annotated[int, Meta(ge=1, le=1000)] = 20
    """the largest file that is opened, in megabytes"""
    streaming: StreamingSettings = StreamingSettings()
    """what is seen of an answer while it is written"""
    reaction_level: Literal["off", "ack", "minimal", "extensive"] = "minimal"
    """how freely the assistant is told to react with emoji, where the platform has reactions"""
    accounts: Mapping[str, "ChannelSettings"] = field(default_factory=dict)
    """several accounts, by name; each is as the channel where it says nothing"""

    def credential(self, account: str, variables: Mapping[str, str]) -> Secret | CredentialFile | None:
        """What opens the account, or the file that has it; None when it is not configured."""
        return None

    @property
    def identity(self) -> str:
        """Which account the credential opens, where several may have the same one."""
        return ""

    @staticmethod
    def normalise_sender(name: str) -> str:
        """A person's name as the platform writes it: names are compared exactly."""
        return name.strip()

    def with_variables(self, variables: Mapping[str, str]) -> "ChannelSettings":
        """These settings, with what is not set taken from the environment."""
        return self

    def of(self, account: str) -> "ChannelSettings":
        """What holds for one account."""
        return self.accounts.get(account, self)

    def limit(self, most: int) -> int:
        """The longest message, where the platform takes `most`."""
        return min(self.text_chunk_limit or most, most)

    def rules_of(self, group: str, space: str | None) -> GroupSettings | None:
        """What holds in a group, which may be part of a `space` such as a Discord server; None when none is named."""
        return self.groups.get(group) or self.groups.get("*")

    def names_groups(self) -> bool:
        """Whether only the groups that are named are heard."""
        return bool(self.groups)

    def wants_mention(self, group: str, space: str | None = None) -> bool:
        """Whether only what mentions the assistant is heard in `group`."""
        for rules in (self.rules_of(group, space), self.groups.get("*")):
            if rules is not None and rules.require_mention is not None:
                return rules.require_mention
        return True


def convert_channels(
    raw: Mapping[str, Any], kinds: Mapping[str, type[ChannelSettings]], dec_hook: Callable[[type, Any], Any]
) -> dict[str, ChannelSettings]:
    """The sections of `channels`, each as the type its channel has, with what accounts take over filled in."""
    found = {}
    for name, section in raw.items():
        kind = kinds.get(name, ChannelSettings)
        shared = {key: value for key, value in section.items() if key not in ("accounts", "name", *kind.OWN)}
        accounts = {account: {**shared, **own} for account, own in section.get("accounts", {}).items()}
        found[name] = msgspec.convert({**section, "accounts": accounts}, kind, dec_hook=dec_hook)
    return found
