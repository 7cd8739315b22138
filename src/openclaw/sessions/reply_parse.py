"""Streaming parsers of a reply: extract directives, and separate reasoning from the answer. No I/O.

Models without a reasoning channel think in tags: `<think>…</think>`, then perhaps `<final>…</final>`.
"""

import re

from msgspec import Struct, structs

from openclaw.core.text import compile_lazily


def beginnings(*words: str, between: str = "") -> str:
    """A pattern for the beginnings of `words`, each whole word too."""
    parts = {between.join(map(re.escape, word[:size])) for word in words for size in range(1, len(word) + 1)}
    return "|".join(sorted(parts, key=len, reverse=True))


# Directives.

SILENT = "NO_REPLY"
HEARTBEAT = "HEARTBEAT_OK"

_DIRECTIVE = compile_lazily(
    r"\[\[\s*(?:(?P<current>reply_to_current)|reply_to\s*:\s*(?P<id>[^\[\]\n]{1,200}?)|(?P<voice>audio_as_voice))"
    r"\s*\]\][ \t]?",
    re.IGNORECASE,
)
_MEDIA = compile_lazily(r"[ \t]*MEDIA:[ \t]*(?P<quote>[`\"']?)(?P<source>\S(?:[^\n]*\S)?)(?P=quote)[ \t]*")
_FENCE = compile_lazily(r" {0,3}(?P<marker>`{3,}|~{3,})(?P<info>[^\n]*)")
_LONGEST_DIRECTIVE = 240


class Directives(Struct, frozen=True, kw_only=True):
    """The directives of one message: attachments, reply target, voice."""

    media: tuple[str, ...] = ()
    reply_to: str | None = None
    reply_to_current: bool = False
    voice: bool = False


class DirectiveParser:
    """Removes directives from a streamed message. Holds back a line that may be an attachment until it ends."""

    def __init__(self) -> None:
        self._line = ""
        """The held part of the current line."""
        self._begun = False
        """Whether a part of the line was passed on."""
        self._worded = False
        """Whether that part had text, not only white space."""
        self._tagged = False
        self._fence = ""
        self.found = Directives()

    def feed(self, text: str) -> str:
        """The text to pass on; holds back what may be part of a directive."""
        out = []
        *whole, last = text.split("\n")
        for part in whole:
            self._line += part
            out.append(self._end_line("\n"))
        self._line += last
        if self._begun or not _may_be_special(self._line):
            out.append(self._release(0 if self._fence else _open_tag(self._line), over=False))
        return "".join(out)

    def close(self) -> str:
        return self._end_line("")

    def _end_line(self, end: str) -> str:
        line = self._line
        if not self._begun and (found := _FENCE.fullmatch(line)):
            self._toggle(found["marker"], found["info"])
            self._line = ""
            return line + end
        if not (self._begun or self._fence) and (media := _MEDIA.fullmatch(line)):
            known = self.found.media
            self.found = structs.replace(self.found, media=tuple(dict.fromkeys((*known, media["source"]))))
            self._line = ""
            return ""
        out = self._release(0, over=True)
        # A line of directives only is removed with its line end.
        emptied = self._tagged and not self._worded
        self._begun = self._worded = self._tagged = False
        return "" if emptied else out + end

    def _toggle(self, marker: str, info: str) -> None:
        if not self._fence:
            self._fence = "" if marker[0] == "`" and "`" in info else marker
        elif marker[0] == self._fence[0] and len(marker) >= len(self._fence) and not info.strip():
            self._fence = ""

    def _release(self, held: int, over: bool) -> str:
        """The line without its tags, all but `held` characters."""
        ready, rest = self._line[: len(self._line) - held], self._line[len(self._line) - held :]
        out = ready if self._fence else _DIRECTIVE.sub(self._note, ready)
        self._begun = self._begun or bool(ready)
        self._worded = self._worded or bool(out.strip())
        if not self._worded and not over:
            rest, out = out + rest, ""  # white space is held until text follows
        self._line = rest
        return out

    def _note(self, tag: "re.Match[str]") -> str:
        if tag["id"]:
            self.found = structs.replace(self.found, reply_to=tag["id"].strip())
        else:
            self.found = structs.replace(self.found, **{"reply_to_current" if tag["current"] else "voice": True})
        self._tagged = True
        return ""


def _may_be_special(line: str) -> bool:
    """Whether an unfinished line may be an attachment or a fence."""
    start = line.lstrip(" \t")[:6]
    return "MEDIA:".startswith(start) or (start[0] in "`~" and len(set(start[:3])) == 1)


def _open_tag(text: str) -> int:
    """The length of the suffix of `text` that may become a tag, or the blank after one."""
    half = 1 if text.endswith("[") else 0
    place = text.rfind("[[")
    tail = text[place:] if place >= 0 else ""
    if not tail or len(tail) >= _LONGEST_DIRECTIVE:
        return half
    whole = _DIRECTIVE.match(tail)
    if whole is None:
        return half if "]]" in tail else len(tail)
    return len(tail) if whole.end() == len(tail) and not tail.endswith((" ", "\t")) else half


# Reasoning tags.

_NAME = r"(?:(?:antml|mm):)?(?P<name>thinking|think|thought|antthinking|final)"
_TAG = compile_lazily(rf"<\s{{0,4}}(?P<close>/?)\s{{0,4}}{_NAME}\b[^<>]{{0,120}}>", re.IGNORECASE)
_CLOSE = compile_lazily(
    r"<\s{0,4}/\s{0,4}(?:(?:antml|mm):)?(?:thinking|think|thought|antthinking)\b[^<>]{0,120}>", re.IGNORECASE
)
_MARK = compile_lazily(r"\n|`+|~+|<")
_LONGEST_TAG = 160
_LONGEST_SPAN = 2_000
"""A code span that does not end within so many characters counts as a stray backtick."""


class ThinkParser:
    """Separates answer and reasoning of one streamed message; the result does not depend on the chunking."""

    def __init__(self, enforce_final: bool = False) -> None:
        self._enforce = enforce_final
        self._answer: list[str] = []
        self._reasoning: list[str] = []
        self._rest = ""
        """Read, not yet decided."""
        self._thinking = False
        self._final = False
        self._tags = 0
        self._closed = 0
        self._shown = False
        self._lead = ""
        """White space before the first text: dropped when it only surrounds a tag."""
        self._since: list[str] = []
        """Text hidden since the last closing tag, in case there is no other answer."""
        self._fence = ""
        """The marker that opened a code fence, while one is open."""
        self._opener = False
        """Whether this is still the line a fence was opened on."""
        self._indent: str | None = ""
        """The indentation so far, at most three spaces; None once the line has more than that."""
        self._span = 0
        """How many backticks opened a code span, 0 outside of one."""

    def feed(self, text: str) -> tuple[str, str]:
        """The answer and the reasoning that `text` adds; holds back what is not certain yet."""
        self._rest += text
        return self._read(over=False)

    def close(self, finished: bool = True) -> tuple[str, str]:
        """Ends the message. A `finished` one without any answer gives the text after its last tag."""
        answer, reasoning = self._read(over=True)
        fallback = "".join(self._since).strip()
        usable = self._closed > 0 or (self._enforce and not self._tags)
        if finished and not self._shown and usable and fallback:
            self._shown = True
            answer += fallback
        elif not self._shown and not self._tags:
            answer += self._lead
        return answer, reasoning

    def _read(self, over: bool) -> tuple[str, str]:
        before = -1
        while self._rest and len(self._rest) != before:
            before = len(self._rest)
            if self._thinking:
                self._think(over)
            else:
                self._speak(over)
        found = "".join(self._answer), "".join(self._reasoning)
        self._answer, self._reasoning = [], []
        return found

    def _think(self, over: bool) -> None:
        found = _CLOSE.search(self._rest)
        if found is not None:
            self._hide(self._rest[: found.start()])
            self._rest = self._rest[found.end() :]
            self._thinking = False
            self._end_tag()
            return
        ready = len(self._rest) - (0 if over else _unfinished_tag(self._rest))
        self._hide(self._rest[:ready])
        self._rest = self._rest[ready:]

    def _speak(self, over: bool) -> None:
        """Reads up to the next effective tag, or as far as is certain."""
        at = 0
        while (mark := _MARK.search(self._rest, at)) is not None:
            sign = mark.group()
            self._pass(self._rest[at : mark.start()])
            if sign == "\n":
                if self._indent == "":
                    self._span = 0  # a code span ends with its paragraph
                self._indent, self._opener = "", False
                at = mark.end()
            elif sign == "<":
                stop = self._tag_at(mark.start(), over)
                if stop is None:
                    self._pass("<")
                    at = mark.end()
                    continue
                self._show(mark.start())
                if not isinstance(stop, str):
                    self._enter(stop)
                return
            else:
                end = self._run_at(mark, over)
                if end is None:
                    self._show(mark.start())
                    return
                at = end
        self._pass(self._rest[at:])
        self._show(len(self._rest))

    def _tag_at(self, place: int, over: bool) -> "re.Match[str] | str | None":
        """The tag at `place`; "" when more must be read, None when there is none."""
        if self._fence:
            return None
        found = _TAG.match(self._rest, place)
        if found is None:
            tail = self._rest[place:]
            waits = not over and len(tail) < _LONGEST_TAG and _unfinished_tag(tail) == len(tail)
            return "" if waits else None
        if not self._span:
            return found
        match _span_end(self._rest, found.end(), self._span, over):
            case True:
                return None
            case False:
                self._span = 0  # the backtick before it opened no code span
                return found
            case _:
                return ""

    def _enter(self, tag: "re.Match[str]") -> None:
        self._rest = self._rest[tag.end() - tag.start() :]
        self._tags += 1
        closes = bool(tag["close"])
        if tag["name"].lower() == "final":
            self._final = not closes
        elif closes:
            self._end_tag()
        else:
            self._thinking = True

    def _end_tag(self) -> None:
        self._closed += 1
        self._since = []
        self._indent, self._span = "", 0

    def _run_at(self, mark: "re.Match[str]", over: bool) -> int | None:
        """The position after a run of backticks or tildes; None when more must be read."""
        run = mark.group()
        if mark.end() == len(self._rest) and not over:
            return None
        at_start = self._indent is not None
        if self._fence:
            if self._opener and run[0] == "`" == self._fence[0]:
                self._fence, self._opener = "", False  # two runs on one line are a code span, not a fence
            elif at_start and run[0] == self._fence[0] and len(run) >= len(self._fence):
                line_end = self._rest.find("\n", mark.end())
                if line_end < 0 and not over and not self._rest[mark.end() :].strip(" \t"):
                    return None
                if not self._rest[mark.end() : line_end if line_end >= 0 else None].strip(" \t"):
                    self._fence = ""
        elif self._span:
            self._span = 0 if run[0] == "`" and len(run) == self._span else self._span
        elif at_start and len(run) >= 3:
            self._fence, self._opener = run, True
        elif run[0] == "`":
            self._span = len(run)
        self._indent = None
        return mark.end()

    def _pass(self, text: str) -> None:
        """Tracks the indentation of the current line."""
        if text and self._indent is not None:
            indent = self._indent + text
            self._indent = indent if len(indent) <= 3 and not indent.strip(" ") else None

    def _show(self, end: int) -> None:
        """Takes the undecided text up to `end` as answer."""
        text, self._rest = self._rest[:end], self._rest[end:]
        if self._enforce and not self._final:
            self._hide(text)
            return
        if not self._shown:
            self._lead += text
            if not self._lead or self._lead.isspace():
                return
            text = self._lead.lstrip() if self._tags else self._lead
            self._shown = True
        self._answer.append(text)

    def _hide(self, text: str) -> None:
        if text:
            self._since.append(text)
            self._reasoning.append(text)


def _unfinished_tag(text: str) -> int:
    """The length of the suffix of `text` that may become a tag."""
    place = text.rfind("<")
    if place < 0 or len(text) - place >= _LONGEST_TAG:
        return 0
    tail = text[place:]
    return len(tail) if _BEGINS_TAG.fullmatch(tail) else 0


_TAG_NAMES = tuple(
    prefix + name
    for prefix in ("", "antml:", "mm:")
    for name in ("thinking", "think", "thought", "antthinking", "final")
)
_BEGINS_TAG = compile_lazily(
    rf"<\s{{0,4}}/?\s{{0,4}}(?:(?:{'|'.join(_TAG_NAMES)})\b[^<>]*|(?:{beginnings(*_TAG_NAMES)})?)", re.IGNORECASE
)


def _span_end(text: str, start: int, ticks: int, over: bool) -> bool | None:
    """Whether a code span of `ticks` backticks ends after `start`; None when more must be read."""
    paragraph = text.find("\n\n", start)
    window = text[start : paragraph if paragraph >= 0 else start + _LONGEST_SPAN]
    for run in re.finditer("`+", window):
        # A run at the end of the text read so far may still grow.
        if len(run.group()) == ticks and (over or paragraph >= 0 or start + run.end() < len(text)):
            return True
    return False if over or paragraph >= 0 or len(text) - start >= _LONGEST_SPAN else None
