"""Whether what a call sends out was given to the model, or made up by it. Pure.

Text from elsewhere can ask for an address that carries something private. An address that stands word for word in what
was read or said cannot: whoever wrote it knew all of it already.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

_URL = re.compile(r"^[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_PLAIN_WORD = re.compile(r"^[^\W\d_]{1,24}(?:[-'’][^\W\d_]{1,24})*$")
_SITE = re.compile(r"^-?(?:site:)?[a-z]{2,24}(?:\.[a-z]{2,24}){1,3}$")
_ODD = re.compile(r"^[\w.+#-]{1,8}$")
MOST_ODD = 2
_TRIM = "\"'“”‘’()[]{}<>.,;:!?+|*&"
MOST_WORDS = 40
GOES_ON = re.compile(r"[\w\-.~%&=+$@!*',:]")


def was_given(args: Mapping[str, Any], said: Sequence[str], public: Sequence[str], owner: Sequence[str]) -> bool:
    """Whether every word in `args` is harmless to send.

    `said` is what people and strangers wrote and no model did, `public` the part of it that is no secret to strangers,
    `owner` what the owner wrote.
    """
    return all(_address(text, said, owner) if _URL.match(text) else _words(text, public) for text in strings(args))


def strings(value: Any) -> Iterable[str]:
    """Every text in the arguments of a call, names of fields aside."""
    if isinstance(value, str):
        if value.strip():
            yield value.strip()
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from strings(item)


def _address(url: str, said: Sequence[str], owner: Sequence[str]) -> bool:
    wanted = _bare(url)
    if any(_stands(wanted, text) for text in said):
        return True
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    if parts.path.strip("/") or parts.query or parts.username or port:
        return False
    host = (parts.hostname or "").removeprefix("www.")
    return bool(host) and any(_stands(host, text.lower()) for text in owner)


def _bare(url: str) -> str:
    return re.sub(r"^https?://(?:www\.)?", "", url.partition("#")[0], flags=re.IGNORECASE).rstrip("/")


def _stands(wanted: str, text: str) -> bool:
    """Whether `wanted` stands in `text` as a whole, or as the directory of an address there."""
    at = text.find(wanted)
    while wanted and at >= 0:
        end = at + len(wanted)
        before, after = text[at - 1 : at], text[end : end + 1]
        fresh = not before or not (before.isalnum() or before in "-_")
        if fresh and (not after or not GOES_ON.match(after) or _sentence_ends(text, end)):
            return True
        at = text.find(wanted, at + 1)
    return False


def _sentence_ends(text: str, end: int) -> bool:
    """A full stop or comma behind an address belongs to the sentence."""
    return text[end] in ".,:!'*" and (end + 1 >= len(text) or text[end + 1].isspace() or text[end + 1] in "\"'*)\\")


def _words(text: str, public: Sequence[str]) -> bool:
    """Plain words can go to a search engine; a key, a number or an encoded text cannot, unless it was given."""
    words = [word for piece in text.split() for word in (piece.strip(_TRIM),) if word]
    if len(words) > MOST_WORDS:
        return False
    known = [each.lower() for each in public]
    strange = [
        word
        for word in words
        if not (_PLAIN_WORD.match(word) or _SITE.match(word.lower()) or any(word.lower() in each for each in known))
    ]
    # "python 3.12" and "GPT-4" are ordinary; two short pieces hold no key.
    return len(strange) <= MOST_ODD and all(_ODD.match(word) for word in strange)
