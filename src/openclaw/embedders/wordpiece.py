"""The tokenizer of the local model: lower-cased WordPiece, as BERT reads text."""

import gzip
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files

CLS, SEP, UNKNOWN = 101, 102, 100
LONGEST_WORD = 100

_CJK = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class WordPiece:
    """Text to token ids, with the marks for start and end."""

    def __init__(self, vocabulary: dict[str, int]) -> None:
        self._ids = vocabulary
        self._pieces = lru_cache(maxsize=20_000)(self._word)

    @classmethod
    def shipped(cls) -> "WordPiece":
        packed = files("openclaw.embedders").joinpath("vocabulary.txt.gz").read_bytes()
        words = gzip.decompress(packed).decode().split("\n")
        return cls({word: number for number, word in enumerate(words)})

    def encode(self, text: str, limit: int) -> list[int]:
        """At most `limit` ids, the two marks included."""
        ids = [CLS]
        for word in _words(text):
            ids += self._pieces(word)
            if len(ids) >= limit - 1:
                break
        return [*ids[: limit - 1], SEP]

    def _word(self, word: str) -> tuple[int, ...]:
        """The longest known pieces of `word` from left to right; unknown when they do not cover it."""
        if len(word) > LONGEST_WORD:
            return (UNKNOWN,)
        found: list[int] = []
        start = 0
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = self._ids.get(("##" if start else "") + word[start:end])
                if piece is not None:
                    found.append(piece)
                    start = end
                    break
            else:
                return (UNKNOWN,)
        return tuple(found)


def _words(text: str) -> Iterator[str]:
    for chunk in _plain(text).split():
        start = 0
        for at, char in enumerate(chunk):
            if _alone(char):
                if start < at:
                    yield chunk[start:at]
                yield char
                start = at + 1
        if start < len(chunk):
            yield chunk[start:]


def _plain(text: str) -> str:
    """Lower case, without accents and control characters; every kind of space is a space."""
    if text.isascii():
        if text.isprintable():
            return text.lower()
        return "".join(char if char.isprintable() else " " if char in "\t\n\r" else "" for char in text).lower()
    kept = []
    for char in text:
        kind = unicodedata.category(char)
        if char in "\t\n\r" or kind == "Zs":
            kept.append(" ")
        elif char != "\ufffd" and kind not in ("Cc", "Cf", "Co", "Cs"):
            kept.append(char)
    bare = unicodedata.normalize("NFD", "".join(kept).lower())
    return "".join(char for char in bare if unicodedata.category(char) != "Mn")


def _alone(char: str) -> bool:
    """Whether `char` is a word of its own: punctuation, and ideographs."""
    code = ord(char)
    if code < 128:
        return not (char.isalnum() or code < 33)
    return unicodedata.category(char).startswith("P") or any(low <= code <= high for low, high in _CJK)
