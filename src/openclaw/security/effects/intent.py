"""Whether the owner asked for a message or a payment himself: his verb, and his words for where it goes. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from openclaw.core.text import compile_lazily

_GROUPS: tuple[tuple[str, str], ...] = (
    (
        "send reply forward email mail message post write tell answer notify respond text say announce publish comment",
        "send reply forward e-?mail mail message post writ tell answer notify respond text say announce publish comment"
        " schick antwort schreib sag mitteil envo répon écri dis env[ií] escrib publi 发 回复 告诉",
    ),
    (
        "create add schedule book put invite make set save plan reserve arrange register new insert upload",
        "create add schedul book put invite make set save plan reserv arrang note regist erstell leg trag lad buch"
        " reservier speicher notier crée ajout planif réserv invit crea añad agend guard 创建 添加 安排 邀请",
    ),
    (
        "delete remove cancel clear trash archive",
        "delet remov cancel clear trash archiv lösch entfern stornier absag supprim annul borr elimin 删 取消",
    ),
    ("pay transfer wire refund", "pay transfer wire refund zahl überweis pai vire transfér pag transfier 付 转账"),
    ("share grant give", "shar grant give teil freigeb gib partag donn compart 分享"),
    (
        "update edit change move rename reschedule modify append",
        "updat edit chang mov renam reschedul modif append änder verschieb bearbeit déplac cambi muev 改 移",
    ),
    (
        "remind cron",
        "remind schedul every each daily weekly alarm wake erinner jeden täglich weck rappel chaque recu[eé]rd "
        "cada 提醒 每",
    ),
)
"""The verbs of a tool's name, and how an owner says the same."""


def _said(words: str) -> re.Pattern[str]:
    return compile_lazily("|".join(rf"\b{word}" if word.isascii() else word for word in words.split()), re.IGNORECASE)


_GROUP_OF = {verb: _said(words) for verbs, words in _GROUPS for verb in verbs.split()}
_TARGET = compile_lazily(
    r"(?:^|_)(?:to|recipients?|cc|bcc|participants?|attendees?|guests?|members?|person|people|users?|username|channels?|ibans?"
    r"|accounts?|emails?|address(?:es)?|ids?|urls?|phones?|numbers?|with|sessionkey|target|rooms?|groups?|chats?|files?)$",
    re.IGNORECASE,
)
_FILE = compile_lazily(
    r"(?:^|_)(?:media|attachments?|paths?|file_?paths?|file_?names?|documents?|images?|photos?)$", re.IGNORECASE
)
"""What goes along has to be named by the owner as well."""
_WHEN = compile_lazily(
    r"^\d{1,4}[-/.]\d{1,2}(?:[-/.]\d{1,4})?$|^\d{1,2}(?::\d\d){1,2}$|^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?Z?$"
)
_ODD = compile_lazily(r"\d{5,}|(?=\w*\d)(?=\w*[A-Za-z])[\w+/=-]{6,}|[\w+/=-]{25,}|\S+@\S+|\S+://\S+|www\.\S+")
LONGEST = 2_000


def asked_for(tool: str, args: Mapping[str, Any], owner: Sequence[str], public: Sequence[str]) -> bool:
    """Whether the owner's own words of this run ask for this call.

    They must hold the verb of the tool, and every target it names. Text that goes along may be in the model's words,
    without keys, numbers or addresses that neither the owner nor the outside has written.
    """
    said = "\n".join(owner)
    tokens = re.findall(r"[A-Z]?[a-z]+", tool.rpartition("__")[2])
    verb = next((_GROUP_OF[token.lower()] for token in tokens if token.lower() in _GROUP_OF), None)
    if verb is None or not verb.search(said):
        return False
    low, known = said.lower(), "\n".join((said, *public)).lower()
    return all(_fits(name, text, low, known) for name, text in _leaves("", args))


_CHANGING = _said(
    "writ sav creat copy copi put add updat edit chang stor export schreib speicher leg erstell écri enregistr 写 保存"
)


def asked_to_change(names: Sequence[Sequence[str]], owner: Sequence[str], *, deletes: bool) -> bool:
    """Whether the owner's own words of this run ask to delete, or to write, files: the verb, and each file by its path.

    `names` are, for each file, the ways to write its path.
    """
    said = "\n".join(owner)
    verb = _GROUP_OF["delete"] if deletes else _CHANGING
    return bool(names and verb.search(said)) and all(
        any(re.search(rf"(?<![\w/.~-]){re.escape(name)}(?![\w/-])", said) for name in each) for each in names
    )


_SENT = compile_lazily(f"{_TARGET.pattern}|{_FILE.pattern}", re.IGNORECASE)


def targets(args: Mapping[str, Any]) -> list[str]:
    """Where a call sends something, and which files: its addressees, channels, hosts and attachments."""
    found = [(name, text) for name, text in _leaves("", args) if text]
    named = [text.lower() for name, text in found if _SENT.search(_snake(name)) and "://" not in text]
    hosts = [host.lower() for _, text in found for host in re.findall(r"://([^/\s?#]+)", text)]
    return [*named, *hosts]


def _leaves(name: str, value: Any) -> list[tuple[str, str]]:
    if isinstance(value, Mapping):
        return [leaf for key, each in value.items() for leaf in _leaves(str(key), each)]
    if isinstance(value, list | tuple):
        return [leaf for each in value for leaf in _leaves(name, each)]
    if isinstance(value, bool) or value is None:
        return []
    return [(name, f"{value:g}" if isinstance(value, float) else str(value).strip())]


def _fits(name: str, text: str, said: str, known: str) -> bool:
    low = text.lower()
    if not text or _WHEN.match(text):
        return True
    if _FILE.search(_snake(name)):
        low = low.rpartition("/")[2]
    if _TARGET.search(_snake(name)) or _FILE.search(_snake(name)) or re.fullmatch(r"[\d.,]+", text):
        return bool(re.search(rf"(?<![\w@.-]){re.escape(low)}(?![\w@-])", said))
    odd = [word for word in _ODD.findall(text) if not _WHEN.match(word)]
    return len(text) <= LONGEST and all(word.lower().strip(".,;:!?") in known for word in odd)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


_READING = frozenset(
    "get list search read find query show view describe count check lookup look browse fetch retrieve".split()
)
_NOUNS = frozenset("mail email message post comment text book plan note new file set".split())


def reads_by_name(tool: str) -> bool:
    """Whether a tool's name says that it only reads: `list_mails`, `getBalance`."""
    first, *rest = [token.lower() for token in re.findall(r"[A-Z]?[a-z]+", tool.rpartition("__")[2])] or [""]
    return first in _READING and not any(token in _GROUP_OF and token not in _NOUNS for token in rest)
