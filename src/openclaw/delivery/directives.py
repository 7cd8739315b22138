"""What a model writes for the runtime and not for people: reply tags, attachments, the tokens for "nothing to say".

Pure but for what the readers have read so far. Each reader takes a message in pieces of any size and holds back what
may yet turn out to be a directive; the pieces never change the result.
"""

import re

from msgspec import Struct

SILENT = "NO_REPLY"
HEARTBEAT = "HEARTBEAT_OK"

_TAG = re.compile(
    r"\[\[\s*(?:(?P<current>reply_to_current)|reply_to\s*:\s*(?P<id>[^\[\]\n]{1,200}?)|(?P<voice>audio_as_voice))"
    r"\s*\]\][ \t]?",
    re.IGNORECASE,
)
_MEDIA = re.compile(r"[ \t]*MEDIA:[ \t]*(?P<quote>[`\"']?)(?P<source>\S(?:[^\n]*\S)?)(?P=quote)[ \t]*")
_FENCE = re.compile(r" {0,3}(?P<marker>`{3,}|~{3,})(?P<info>[^\n]*)")
_LONGEST_TAG = 240


class Directives(Struct, frozen=True, kw_only=True):
    """What a message asked of the runtime."""

    media: tuple[str, ...] = ()
    reply_to: str | None = None
    reply_to_current: bool = False
    voice: bool = False


class DirectiveParser:
    """Takes directives out of a message. A line that may be an attachment waits for its end."""

    def __init__(self) -> None:
        self._line = ""
        """What of the current line was read and not given out."""
        self._begun = False
        """Whether some of it was."""
        self._worded = False
        """Whether there were words in that."""
        self._tagged = False
        self._fence = ""
        self._media: list[str] = []
        self._reply_to: str | None = None
        self._current = False
        self._voice = False

    @property
    def found(self) -> Directives:
        return Directives(
            media=tuple(dict.fromkeys(self._media)),
            reply_to=self._reply_to,
            reply_to_current=self._current,
            voice=self._voice,
        )

    def feed(self, text: str) -> str:
        """The words among `text`, without what must wait."""
        out = []
        *whole, last = text.split("\n")
        for part in whole:
            self._line += part
            out.append(self._finish("\n"))
        self._line += last
        out.append(self._advance())
        return "".join(out)

    def close(self) -> str:
        return self._finish("")

    def _advance(self) -> str:
        """What of an unfinished line can be given out."""
        if not self._begun and _may_be_special(self._line):
            return ""
        return self._given(0 if self._fence else _open_tag(self._line), over=False)

    def _finish(self, end: str) -> str:
        line = self._line
        if not self._begun and (found := _FENCE.fullmatch(line)):
            self._toggle(found["marker"], found["info"])
            self._line = ""
            return line + end
        if not (self._begun or self._fence) and (media := _MEDIA.fullmatch(line)):
            self._media.append(media["source"])
            self._line = ""
            return ""
        out = self._given(0, over=True)
        # A line that was nothing but directives leaves no empty line behind.
        emptied = self._tagged and not self._worded
        self._begun = self._worded = self._tagged = False
        return "" if emptied else out + end

    def _toggle(self, marker: str, info: str) -> None:
        if not self._fence:
            self._fence = "" if marker[0] == "`" and "`" in info else marker
        elif marker[0] == self._fence[0] and len(marker) >= len(self._fence) and not info.strip():
            self._fence = ""

    def _given(self, held: int, over: bool) -> str:
        """The line without its tags, all but `held` characters."""
        ready, rest = self._line[: len(self._line) - held], self._line[len(self._line) - held :]
        out = ready if self._fence else _TAG.sub(self._noted, ready)
        self._begun = self._begun or bool(ready)
        self._worded = self._worded or bool(out.strip())
        if not self._worded and not over:
            rest, out = out + rest, ""  # blanks wait for words
        self._line = rest
        return out

    def _noted(self, tag: "re.Match[str]") -> str:
        self._current = self._current or tag["current"] is not None
        self._reply_to = tag["id"].strip() if tag["id"] else self._reply_to
        self._voice = self._voice or tag["voice"] is not None
        self._tagged = True
        return ""


def _may_be_special(line: str) -> bool:
    """Whether an unfinished line may be an attachment or a fence."""
    start = line.lstrip(" \t")
    if "MEDIA:".startswith(start[:6]) or start.startswith("MEDIA:"):
        return True
    return start[:1] in ("`", "~") and (len(set(start[:3])) == 1)


def _open_tag(text: str) -> int:
    """How long the end of `text` is that may yet become a tag, or the blank behind one."""
    half = 1 if text.endswith("[") else 0
    place = text.rfind("[[")
    tail = text[place:] if place >= 0 else ""
    if not tail or len(tail) >= _LONGEST_TAG:
        return half
    whole = _TAG.match(tail)
    if whole is None:
        return half if "]]" in tail else len(tail)
    return len(tail) if whole.end() == len(tail) and not tail.endswith((" ", "\t")) else half
