"""Text for prompts: sanitising, fencing, measuring, and labels of where it came from.

Three classes of string enter a prompt, each with its own cleaning: a `literal` (one line: a path, an id), a `block`
(several lines someone else wrote), and our own wording, which needs none. `neutralise` keeps a block from forging the
markers that fence it.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal, cast, get_args

from msgspec import Struct

# The vocabulary of the label policy.

ActionKind = Literal[
    "read",
    "read-secret",
    "write",
    "write-outside",
    "write-instructions",
    "delete",
    "fetch",
    "fetch-composed",
    "run",
    "send",
    "schedule",
    "configure",
    "spend",
    "delegate",
]
"""What a tool call does, in the categories of the label policy."""
LabelDecision = Literal["allow", "ask", "deny"]
LabelColumn = Literal["none", "skill", "tool", "external", "stranger"]
"""The least trusted label in the context; `none` when everything is the owner's."""
ACTION_KINDS: tuple[ActionKind, ...] = get_args(ActionKind)
LABEL_COLUMNS: tuple[LabelColumn, ...] = get_args(LabelColumn)


# Patterns compiled on first use.

_PARTS = ("search", "match", "fullmatch", "finditer", "findall", "sub", "subn", "split", "pattern", "flags")


class _Lazy:
    def __init__(self, pattern: str, flags: int) -> None:
        self._source = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        # Runs once: afterwards the attributes of the compiled pattern are set on this object.
        if name not in _PARTS:
            raise AttributeError(name)
        compiled = re.compile(*self._source)
        for part in _PARTS:
            setattr(self, part, getattr(compiled, part))
        return getattr(compiled, name)


def compile_lazily(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """A pattern compiled at its first use, so that importing a module stays cheap."""
    return cast(re.Pattern[str], _Lazy(pattern, flags))


# Prompt text.

Label = Literal["owner", "system", "agent", "workspace", "skill", "tool", "external", "stranger"]

CACHE_BOUNDARY = "\n<!-- OPENCLAW_CACHE_BOUNDARY -->\n"
FORGED_START = "[[MARKER_SANITIZED]]"
FORGED_END = "[[END_MARKER_SANITIZED]]"

FenceKind = Literal["WORKSPACE_FILE", "PLUGIN_CONTEXT", "HEARTBEAT_PROMPT"]


class PromptText(Struct, frozen=True):
    """A string, where it came from, and how far it is trusted."""

    text: str
    source: str
    label: Label = "system"

    def __bool__(self) -> bool:
        return bool(self.text)


class ContextFile(Struct, frozen=True, kw_only=True):
    """A workspace file in the prompt, truncated to its budget."""

    name: str
    path: str
    content: PromptText
    raw_chars: int
    missing: bool = False
    problem: str = ""
    """Why the file could not be read; empty when it could."""
    truncated: bool = False
    causes: tuple[str, ...] = ()

    @property
    def injected_chars(self) -> int:
        return utf16_length(self.content.text)

    @property
    def spared(self) -> bool:
        """Whether the file has content that was left out entirely."""
        return self.truncated and not self.content


# Cleaning.

# Unicode categories Cc and Cf as ranges (newer assignments included), plus the two line separators and lone surrogates.
_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_FORMAT = (
    "\u00ad\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200d\u2060-\u2064\u206a-\u206f\ufeff\ufff9-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f"
)
_UNSEEN = f"\x7f-\x9f{_BIDI}{_FORMAT}\u2028\u2029\ud800-\udfff"
_NOT_LITERAL = compile_lazily(f"[\x00-\x1f{_UNSEEN}]")
_NOT_BLOCK = compile_lazily(f"[\x00-\x08\x0b-\x1f{_UNSEEN}]")
_IS_BIDI = compile_lazily(f"[{_BIDI}]")


def sanitize_line(value: str) -> str:
    """`value` as one safe line: control and format characters and line separators removed."""
    return _NOT_LITERAL.sub("", value)


def sanitize_block(value: str) -> str:
    """`value` as safe lines: Unix line ends, tabs kept, other control and format characters removed."""
    if "\r" in value:
        value = value.replace("\r\n", "\n").replace("\r", "\n")
    return _NOT_BLOCK.sub("", value)


def replace_surrogates(text: str) -> str:
    """`text` with lone surrogates, which no file can hold, replaced by a question mark."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def find_hidden(text: str) -> Iterator[tuple[int, str, bool]]:
    """Each character `block` would remove: its position, its code point as `U+202E`, whether it reorders text."""
    for found in _NOT_BLOCK.finditer(text):
        char = found.group()
        if char == "\r" or (char == "\ufeff" and found.start() == 0):
            continue
        yield found.start(), f"U+{ord(char):04X}", bool(_IS_BIDI.match(char))


# Measuring and cutting.


def utf16_length(text: str) -> int:
    """The length of `text` in UTF-16 code units, the unit of every limit."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def head(text: str, count: int) -> str:
    """The longest prefix of `text` within `count` units; surrogate pairs are never split."""
    if text.isascii():
        return text[: max(0, count)]
    return text.encode("utf-16-le", "surrogatepass")[: max(0, count) * 2].decode("utf-16-le", "ignore")


def tail(text: str, count: int) -> str:
    """The longest suffix of `text` within `count` units."""
    if count <= 0:
        return ""
    if text.isascii():
        return text[-count:]
    raw = text.encode("utf-16-le", "surrogatepass")[-count * 2 :]
    if len(raw) >= 2 and 0xDC <= raw[1] <= 0xDF:
        raw = raw[2:]
    return raw.decode("utf-16-le", "ignore")


def clip(text: str, most: int) -> str:
    """`text`, with an ellipsis at its end when it is longer than `most` characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def estimate_tokens(chars: int) -> int:
    """The estimated tokens of `chars` characters, by the rule of thumb the reports use."""
    return -(-max(0, chars) // 4)


# Fences and markers.

_OPEN = "\uff1c\u2329\u3008\u2039\u27e8\ufe64\u00ab\u300a\u27ea\u27ec\u27ee\u276c\u276e\u02c2"
_CLOSE = "\uff1e\u232a\u3009\u203a\u27e9\ufe65\u00bb\u300b\u27eb\u27ed\u27ef\u276d\u276f\u02c3"
_DROPPED = "\u200b\u200c\u200d\u2060\ufeff\u00ad"
_WIDE = {0xFF00 + low: 0x20 + low for low in (*range(0x21, 0x3B), 0x3F, *range(0x41, 0x5B))}
_FOLD: dict[int, int | None] = {
    **_WIDE,
    **{ord(char): ord("<") for char in _OPEN},
    **{ord(char): ord(">") for char in _CLOSE},
    **{ord(char): None for char in _DROPPED},
}
_FOLDABLE = compile_lazily("[" + "".join(map(chr, _FOLD)) + "]")
_MARKER = compile_lazily(
    r"<<<\s*+(?P<end>END[\s_]++)?"
    r"(?:EXTERNAL[\s_]++UNTRUSTED[\s_]++CONTENT|WORKSPACE[\s_]++FILE|PLUGIN[\s_]++CONTEXT|HEARTBEAT[\s_]++PROMPT)"
    r"(?![A-Za-z0-9])[^<>\n]{0,300}+>{0,3}"
    r"|<!--\s*+OPENCLAW[\s_-]++CACHE[\s_-]++BOUNDARY\s*+(?:-->)?",
    re.IGNORECASE,
)


def fold(text: str) -> str:
    """`text` with wide letters and bracket look-alikes made plain and zero-width characters removed."""
    return text.translate(_FOLD) if not text.isascii() and _FOLDABLE.search(text) else text


def find_markers(text: str) -> Iterator[tuple[int, int, bool]]:
    """Imitations of our markers in `text`: start, end, and whether it is an end marker."""
    folded = fold(text)
    found = list(_MARKER.finditer(folded))
    if not found:
        return
    origin = range(len(text)) if len(folded) == len(text) else [i for i, c in enumerate(text) if c not in _DROPPED]
    for match in found:
        yield origin[match.start()], origin[match.end() - 1] + 1, bool(match["end"])


def neutralise(text: str) -> str:
    """`text` with every imitation of a marker replaced, so that only our own fences open and close."""
    if "<" not in text and text.isascii():
        return text
    pieces, at = [], 0
    for start, end, closes in find_markers(text):
        pieces += [text[at:start], FORGED_END if closes else FORGED_START]
        at = end
    return "".join((*pieces, text[at:])) if pieces else text


def fence(kind: FenceKind, fence_id: str, text: str, **attributes: str) -> str:
    """`text` between start and end markers that only someone who knows `fence_id` could write."""
    clean = {key: re.sub(r'[<>"]', "_", fold(sanitize_line(value))) for key, value in attributes.items()}
    named = "".join(f' {key}="{value}"' for key, value in clean.items())
    return f'<<<{kind} id="{fence_id}"{named}>>>\n{text}\n<<<END_{kind} id="{fence_id}">>>'


# Origins.

UNTRUSTED: tuple[Label, ...] = ("stranger", "external", "tool", "skill")
"""Least trusted first."""
MAX_ORIGINS = 24
SOURCE_CHARS = 160


class Origin(Struct, frozen=True):
    """A label and a source a person can look up: a file, an address, a tool."""

    label: Label
    source: str

    @property
    def untrusted(self) -> bool:
        return self.label in UNTRUSTED


def make_origin(label: Label, source: str) -> Origin:
    """An origin with its source as one safe, short line."""
    name = " ".join(sanitize_line(source.replace("\n", " ")).split())
    return Origin(label, clip(name, SOURCE_CHARS))


def merge_origins(*groups: Iterable[Origin]) -> tuple[Origin, ...]:
    """All untrusted origins of `groups`, each once; of very many, the first and the latest."""
    found = list(dict.fromkeys(each for group in groups for each in group if each.untrusted))
    if len(found) <= MAX_ORIGINS:
        return tuple(found)
    worst = next(each for label in UNTRUSTED for each in found if each.label == label)
    return tuple(dict.fromkeys((worst, *found[: MAX_ORIGINS // 2], *found[-(MAX_ORIGINS // 2 - 1) :])))


# Text on a terminal.


def strip_unprintable(text: str) -> str:
    """`text` without terminal control sequences and invisible characters; line breaks and tabs stay."""
    return "\n".join(
        line if line.isprintable() else "".join(char for char in line if char == "\t" or char.isprintable())
        for line in text.split("\n")
    )


def spell_out_invisible(text: str, kept: str = "\n") -> str:
    """`text` with invisible characters spelled out as code points, for showing a command to an approver."""
    return "".join(char if char in kept or char.isprintable() else f"⟨U+{ord(char):04X}⟩" for char in text)
