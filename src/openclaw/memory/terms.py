"""Tokenizes text for the index: stemmed words, identifiers whole and in parts, ideographs as bigrams. Pure."""

import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct

from openclaw.core.text import compile_lazily

MAX_QUERY_TERMS = 24
LONGEST = 64
PART = 0.5
"""The weight of an identifier's part; the whole weighs 1."""

# Scripts that are written without spaces; a pair of characters is the nearest thing to a word.
_DENSE = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
# Vowel signs and points that belong to the letter before them.
_MARKS = "\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff"
_LETTER = f"(?:(?![{_DENSE}])[^\\W_]|[{_MARKS}])"
_ASCII = compile_lazily(r"[A-Za-z0-9]+(?:[_.@\-]+[A-Za-z0-9]+)*")
_ANY = compile_lazily(f"[{_DENSE}]+|{_LETTER}+(?:[_.@\\-]+{_LETTER}+)*")
_IS_DENSE = compile_lazily(f"[{_DENSE}]")
_JOINER = compile_lazily(r"[_.@\-]+")
_HUMP = compile_lazily(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_HIRAGANA = compile_lazily("[\u3041-\u309f]+")
_VOWEL = compile_lazily("[aeiouy]")

STOP_WORDS = frozenset(
    """
    a about above after again against all also am an and any are as at be because been before being below between both
    but by can could did do does doing don down during each few for from further get gets getting go goes going got had
    has have having he her here hers him his how i if in into is it its itself just let lets like ll m many may me might
    mine more most much must my myself need no nor not now of off on once one only or other our ours out over own
    please put re s said same say says she should so some such t tell than that the their theirs them then there these
    they thing things this those through to too under until up us use used using ve very want was way we went were what
    when where which while who whom whose why will with would you your yours know known name called call remember
    show find give gave make made
    aber als am auch auf aus bei bin bis das dass dem den der des die ein eine einem einen einer es für habe haben hat
    ich ihr im in ist ja kann mein mich mir mit nach nicht noch nur oder sich sie sind über um und uns von war was wann
    wenn wer wie wir wird wo zu zum zur
    au aux avec ce ces cette dans de des du elle en est et il je la le les leur mais me mon ne nous on ou où par pas
    pour quand que quel quelle qui sa se ses son sur un une vous
    al como con cuál cuándo de del dónde el ella en es esta este la las lo los mi mis para pero por qué que quién se
    su sus una y yo
    """.split()
)

# Particles, pronouns and question words; what is left between them carries the meaning.
_DENSE_STOPS = compile_lazily(
    "为什么|為什麼|什么时候|什麼時候|什么|什麼|怎么样|怎么|怎麼|怎样|哪里|哪裡|哪个|哪個|哪些|哪|谁|誰|多少|多久|几|幾|"
    "是否|是不是|有没有|可以|需要|应该|我们|我們|你们|他们|她们|我|你|您|他|她|它|的|了|是|在|吗|嗎|呢|吧|啊|和|与|跟|把|被|"
    "给|向|从|对|就|都|也|很|不|没|要|会|能|该|请|这|那|这个|那个|有|用|去|到|叫|让|说|"
    "なに|何時|何処|何|誰|どこ|いつ|どう|なぜ|どの|どれ|私|僕|あなた"
)
_PARTICLES = "은는이가을를의에도로와과"


class Term(Struct, frozen=True):
    """A query term as the index spells it, with its weight."""

    text: str
    weight: float = 1.0
    exact: bool = False
    """An identifier: a number, a code, a name with `_`, `.`, `@` or `-`."""


def index_terms(text: str) -> str:
    """Tokenizes `text` for the index: its terms, separated by spaces."""
    if text.isascii():
        return " ".join(map(_expanded, _ASCII.findall(text)))
    return " ".join(map(_expanded, _ANY.findall(_folded(text))))


def query_terms(text: str) -> tuple[Term, ...]:
    """Tokenizes a query, each term once; stop words count only when there is nothing else."""
    found = list(_asked(text, STOP_WORDS)) or list(_asked(text, frozenset()))
    heaviest: dict[str, Term] = {}
    for term in found:
        if term.text not in heaviest or heaviest[term.text].weight < term.weight:
            heaviest[term.text] = term
    return tuple(heaviest.values())[:MAX_QUERY_TERMS]


def word_set(text: str) -> frozenset[str]:
    """The words of `text`, to tell how alike two snippets are."""
    return frozenset(index_terms(text).split())


def stem(word: str) -> str:
    """Strips English endings, so that one form finds the others."""
    if len(word) < 4 or not word.isascii() or not word.isalpha():
        return word
    word = _singular(word)
    for ending in ("ing", "ed"):
        base = word.removesuffix(ending)
        if base != word and len(base) >= 3 and _VOWEL.search(base):
            word = _mended(base)
            break
    if len(word) > 5 and word.endswith("ly"):
        word = word[:-2]
    return word[:-1] if len(word) >= 5 and word.endswith("e") else word


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes", "zes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _mended(base: str) -> str:
    """Restores the stem's spelling: plann to plan, mov to move."""
    if base[-1] == base[-2] and base[-1] not in "aeiouls":
        return base[:-1]
    consonant_end = base[-1] not in "aeiouywx" and base[-2] in "aeiouy"
    if len(base) == 3 and consonant_end and base[0] not in "aeiou":
        return base + "e"
    return base


def _folded(text: str) -> str:
    """Folds wide letters and accents; the case stays, because camelCase is split by it."""
    plain = unicodedata.normalize("NFKD", text)
    bare = "".join(char for char in plain if not "\u0300" <= char <= "\u036f")
    return unicodedata.normalize("NFC", bare)


@lru_cache(maxsize=16_384)
def _expanded(word: str) -> str:
    if _IS_DENSE.match(word):
        return " ".join((*word, *_pairs(word)))
    return " ".join(term.text for term in _word(word))


def _word(word: str) -> Iterator[Term]:
    """The terms of a word: an identifier gives itself and its parts."""
    parts = [part for piece in _JOINER.split(word) for part in _HUMP.split(piece) if part]
    lowered = word.casefold()
    if len(parts) == 1:
        exact = not word.isalpha() and any(char.isdigit() for char in word)
        yield Term(stem(lowered)[:LONGEST], exact=exact)
        return
    whole = _JOINER.sub("_", lowered)
    if len(whole) <= LONGEST:
        yield Term(whole, exact=True)
    for part in parts:
        yield Term(stem(part.casefold())[:LONGEST], weight=PART)


def _asked(text: str, stops: frozenset[str]) -> Iterator[Term]:
    for word in _ANY.findall(_folded(text)):
        if _IS_DENSE.match(word):
            yield from _dense(word, bool(stops))
        elif word.casefold() not in stops:
            yield from (term for term in _word(word) if term.exact or term.text not in stops)


def _dense(run: str, skip: bool) -> Iterator[Term]:
    """The bigrams of a run of ideographs; a lone character is a term."""
    pieces = [run]
    if skip:
        pieces = [part for piece in _DENSE_STOPS.split(run) for part in _HIRAGANA.split(piece) if part]
    for piece in pieces:
        if "\uac00" <= piece[0] <= "\ud7af" and len(piece) > 2 and piece[-1] in _PARTICLES:
            piece = piece[:-1]
        if len(piece) == 1:
            yield Term(piece, weight=PART)
        for pair in _pairs(piece):
            yield Term(pair)


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)]
