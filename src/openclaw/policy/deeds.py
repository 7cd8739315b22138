"""What a call amounts to, in the words of the table of labels. Pure: facts about paths and addresses are handed in."""

import re
from collections.abc import Sequence

from msgspec import Struct

from openclaw.core.deed import ActionKind
from openclaw.core.secret import is_secret_place
from openclaw.core.tool import Effects

WORDS: dict[ActionKind, str] = {
    "read": "reads files",
    "read-secret": "reads a file that usually holds credentials",
    "write": "writes files in the workspace",
    "write-outside": "writes outside the workspace",
    "write-instructions": "changes what the assistant is told in every conversation",
    "delete": "deletes files",
    "fetch": "fetches an address that was given",
    "fetch-composed": "sends out words or an address that nobody gave",
    "run": "runs code",
    "send": "sends a message out",
    "schedule": "schedules work",
    "configure": "changes the configuration",
    "spend": "changes what is spent",
    "delegate": "hands work to another conversation",
}

_BY_EFFECT: tuple[tuple[Effects, ActionKind], ...] = (
    (Effects.RUNS_CODE, "run"),
    (Effects.SENDS_OUT, "send"),
    (Effects.SCHEDULES, "schedule"),
    (Effects.CHANGES_CONFIG, "configure"),
    (Effects.SPENDS, "spend"),
    (Effects.DELEGATES, "delegate"),
    (Effects.DELETES, "delete"),
)
_INSTRUCTIONS = frozenset(
    "agents.md soul.md tools.md identity.md user.md heartbeat.md bootstrap.md memory.md claude.md".split()
)
_STANDING = frozenset({"skills", "hooks"})
"""Directories at the top of a workspace whose files are followed or run without being asked for."""


class Facts(Struct, frozen=True, kw_only=True):
    """What has to be known of a call beside its effects."""

    reads: Sequence[str] = ()
    """Absolute paths it reads."""
    writes: Sequence[str] = ()
    workspace: str = ""
    address_known: bool = True
    """Whether every address and word it sends out stands in what was read or said before."""
    named: Sequence[str] = ()
    """What the owner wrote in this conversation."""


def actions_of(effects: Effects, facts: Facts) -> tuple[ActionKind, ...]:
    """Everything a call does, most serious first."""
    found: list[ActionKind] = [deed for effect, deed in _BY_EFFECT if effect in effects]
    if Effects.FETCHES in effects:
        found.append("fetch" if facts.address_known else "fetch-composed")
    if Effects.RUNS_CODE not in effects:
        if Effects.WRITES_FILES in effects:
            found += [_writing(path, facts.workspace) for path in facts.writes] or ["write"]
        if Effects.READS_FILES in effects:
            found += [_reading(path, facts.named) for path in facts.reads] or ["read"]
    return tuple(dict.fromkeys(found))


def _writing(path: str, workspace: str) -> ActionKind:
    root = workspace.rstrip("/") + "/"
    if not workspace or not path.startswith(root):
        return "write-outside"
    parts = [part.lower() for part in path[len(root) :].split("/") if part]
    if parts[:1] and (parts[0] in _STANDING or any(part.startswith(".") for part in parts)):
        return "write-instructions"
    return "write-instructions" if len(parts) == 1 and parts[0] in _INSTRUCTIONS else "write"


def _reading(path: str, named: Sequence[str]) -> ActionKind:
    if not is_secret_place(path):
        return "read"
    name = path.rpartition("/")[2]
    asked = any(re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", said) for said in named)
    return "read" if asked else "read-secret"


_NETWORK = re.compile(
    r"://|(?<![\w./-])(?:curl|wget|ssh|scp|sftp|rsync|nc|ncat|netcat|socat|telnet|ftp|lynx|w3m|links|elinks|http|https|xh"
    r"|aria2c|yt-dlp|youtube-dl|gh|glab|hub|svn|hg|mail|mailx|mutt|himalaya|neomutt|fetchmail|dig|nslookup|whois|aws|gcloud|az"
    r"|kubectl|docker|podman|npx|pipx|uvx|bunx)(?![\w.-])"
    r"|\bgit\s+(?:-\S+\s+|-C\s+\S+\s+)*(?:clone|fetch|pull|ls-remote|submodule|push|archive)\b"
    r"|\b(?:pip3?|uv|npm|pnpm|yarn|bun|cargo|gem|go|apt|apt-get|brew|dnf|apk|composer)\s+(?:\S+\s+)?(?:install|add|get|update|"
    r"upgrade|download|fetch|view|search|info|show|pip)\b|/dev/(?:tcp|udp)/",
)
_DELETING = re.compile(
    r"(?<![\w./-])(?:rm|rmdir|unlink|shred|srm|trash|trash-put|wipefs|mkfs(?:\.\w+)?)(?![\w.-])|\bfind\b[^;|&]*\s-delete\b"
    r"|\bgit\s+(?:-\S+\s+)*(?:clean|reset\s+--hard|checkout\s+--|branch\s+-D|push\s+[^;|&]*(?:--force|--delete))"
    r"|\bdrop\s+(?:table|database|schema)\b|\btruncate\b|\bdd\b[^;|&]*\bof="
    r"|\b(?:shutil\.rmtree|os\.(?:remove|unlink|rmdir)|fs\.(?:rm|unlink)\w*)\s*\(",
    re.IGNORECASE,
)


def reaches_out(command: str) -> bool:
    """Whether a command line may bring text from elsewhere, as far as its words tell. Too often rather than not."""
    return bool(_NETWORK.search(command))


def deletes(command: str) -> int:
    """How many deleting programs a command line names."""
    return len(_DELETING.findall(command))
