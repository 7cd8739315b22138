"""Redacts credentials from text and logs: known values, and strings with the shape of a credential."""

import base64
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import log2
from typing import Any
from urllib.parse import quote, quote_plus, unquote

from msgspec import Struct, structs

from openclaw.core.secret import REDACTED, Secret
from openclaw.core.text import compile_lazily

LEAST_VALUE = 6
"""A shorter value occurs in ordinary text."""

_SECRET_NAME = compile_lazily(
    r"(?:^|_)(?:token|secret|password|passwd|passphrase|api_?key|access_?key|private_?key|credentials?)s?$",
    re.IGNORECASE,
)
# Prefixes are bounded: otherwise a long line of dashes would be scanned to its end from every position.
_WORD = (
    r"(?:[\w-]{0,40}(?:api[_-]?key|access[_-]?key|private[_-]?key|signing[_-]?key|secret|passw(?:or)?d|passphrase"
    r"|credentials?)|(?:[\w-]{0,40}[_-])?token|(?:access|refresh|bearer|bot|auth|session|id|device)token)"
)
_PAIR = compile_lazily(
    rf"""(?P<name>["']?\b{_WORD}["']?\s{{0,8}}[=:]\s{{0,8}}["']?)(?P<value>[^\s"',;&)}}\]]{{6,}})""", re.IGNORECASE
)
_QUOTED = compile_lazily(
    rf"""(?P<name>["']?\b{_WORD}["']?\s{{0,8}}[=:]\s{{0,8}}")(?P<value>(?:[^"\\]|\\.){{6,}})(?=")""", re.IGNORECASE
)
_FLAG = compile_lazily(
    r"(?P<name>--?[\w-]{0,40}(?:token|password|passwd|secret|api-?key|credential)[\w-]{0,40}[ =])(?P<value>[^\s-]\S*)",
    re.IGNORECASE,
)
_HEADER = compile_lazily(
    r"(?P<name>\b(?:authorization|proxy-authorization|cookie|set-cookie|x-api-key|api-key|x-goog-api-key"
    r"|x-openclaw-token|x-auth-token)[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic|token)\s+)?)(?P<value>[^\s\"'][^\r\n\"']*)",
    re.IGNORECASE,
)
_SCHEME = compile_lazily(r"(?P<name>\b(?:bearer|basic)\s+)(?P<value>[A-Za-z0-9._~+/=-]{8,})", re.IGNORECASE)
_KEY_BLOCK = compile_lazily(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_SHAPES = compile_lazily(
    r"\b(?:sk|pk|rk)[-_](?:live|test|proj|ant|or|svcacct)?[-_]?[A-Za-z0-9_-]{16,}"
    r"|\bglpat-[\w-]{20,}|\bnpm_\w{30,}|\bhf_\w{20,}|\bgsk_\w{20,}|\bxai-\w{20,}|\bpplx-\w{20,}|\br8_\w{20,}"
    r"|\bpypi-[\w-]{40,}|\bxapp-[\w-]{10,}|\bdop_v1_\w{40,}|\bya29\.[\w-]{20,}|\bASIA[0-9A-Z]{16}\b"
    r"|\bSG\.[\w-]{16,}\.[\w-]{16,}|\bAGE-SECRET-KEY-1[0-9A-Z]{20,}"
    r"|https://hooks\.slack\.com/services/[\w/]+|https://discord(?:app)?\.com/api/webhooks/[\w/-]+"
)
_USERINFO = compile_lazily(r"(?<=://)[^/?#\s@]+(?=@)")
_QUERY = compile_lazily(r"(?<=[?&])([\w.-]*(?:token|key|secret|password|signature|sig))=[^&#\s]+", re.IGNORECASE)
_LOOKS_SECRET = compile_lazily(
    r"\bsk-[\w-]{12,}|\bgh[pousr]_\w{20,}|\bgithub_pat_\w{20,}|\bxox[abeprs]-[\w-]{10,}|\bAKIA[0-9A-Z]{16}\b"
    r"|\bAIza[\w-]{30,}|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+|\b\d{8,10}:[\w-]{30,}"
    r"|(?<=\bBearer )[^\s${]+|(?<=\bBasic )[^\s${]+|-----BEGIN [A-Z ]*PRIVATE KEY-----.*",
    re.DOTALL,
)
# What every match of a pattern contains. Looking for that first spares most text the pattern, which is far slower.
_IN_SHAPES = (
    *("sk-", "sk_", "pk-", "pk_", "rk-", "rk_", "glpat-", "npm_", "hf_", "gsk_", "xai-", "pplx-", "r8_", "pypi-"),
    *("xapp-", "dop_v1_", "ya29.", "ASIA", "SG.", "AGE-SECRET-KEY-1", "https://hooks.slack.com/", "https://discord"),
)
_IN_SECRETS = (
    *("sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "xox", "AKIA", "AIza", "eyJ"),
    *("Bearer ", "Basic ", "-----BEGIN "),
)
_NUMBERED = compile_lazily(r"\d{8}:")


def _may_look_secret(text: str) -> bool:
    return any(map(text.__contains__, _IN_SECRETS)) or (":" in text and _NUMBERED.search(text) is not None)


def redact_shapes(text: str) -> str:
    """Removes the credentials that can be told by their shape."""
    if "://" in text:
        text = _USERINFO.sub(REDACTED, text)
    if "=" in text:
        text = _QUERY.sub(rf"\1={REDACTED}", text)
    return _LOOKS_SECRET.sub(REDACTED, text) if _may_look_secret(text) else text


def redact_credentials(text: str) -> str:
    """`text` without anything that has the shape of a credential; what only stands beside such a word stays."""
    text = _KEY_BLOCK.sub(REDACTED, text)
    return redact_shapes(_SHAPES.sub(REDACTED, text) if any(map(text.__contains__, _IN_SHAPES)) else text)


# Credentials in files and in what commands print, which nobody told us.

_FOUND_PAIR = compile_lazily(
    rf"""(?P<name>["']?\b{_WORD}["']?[ \t]{{0,8}}[=:][ \t]{{0,8}}["']?)"""
    r"""(?P<value>[A-Za-z0-9+/_=.~-]{12,})(?=["'\s,;&)}\]]|\Z)""",
    re.IGNORECASE,
)
_SUSPECT_WORDS = ("key", "secret", "passw", "passphrase", "credential", "token")
_SUSPECT_LINE = compile_lazily(rf"^.*(?:{'|'.join(_SUSPECT_WORDS)}).*$", re.IGNORECASE | re.MULTILINE)
_FOUND_URL = compile_lazily(r"(?<=://)(?P<name>[^/?#\s@:]*:)(?P<value>[^/?#\s@]{6,})(?=@[\w\[])")
_PLACEHOLDER = compile_lazily(
    r"example|sample|dummy|changeme|placeholder|your[_-]?|redacted|xxxx|\*{3}|0{6}|1234567|abcdef|test", re.IGNORECASE
)
LEAST_ENTROPY = 3.0
"""Bits for each character; words and repetitions have fewer, keys have more."""


def entropy(text: str) -> float:
    """Shannon's entropy of the characters of a text, in bits for each."""
    counts = Counter(text).values()
    return -sum(count / len(text) * log2(count / len(text)) for count in counts)


def redact_found(text: str) -> str:
    """`text` without what certainly is a credential: known shapes, key blocks, and random values beside such a word."""

    def certain(found: re.Match[str]) -> str:
        return found[0] if _is_placeholder(found[0]) else REDACTED

    def random(found: re.Match[str]) -> str:
        value = found["value"]
        mixed = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
        return f"{found['name']}{REDACTED}" if mixed and not _is_placeholder(value) else found[0]

    text = _KEY_BLOCK.sub(REDACTED, text)
    if any(map(text.__contains__, _IN_SHAPES)):
        text = _SHAPES.sub(certain, text)
    if _may_look_secret(text):
        text = _LOOKS_SECRET.sub(certain, text)
    if "://" in text:
        text = _FOUND_URL.sub(random, text)
    # The pattern of a pair is slow: only lines with such a word are searched.
    if any(map(text.casefold().__contains__, _SUSPECT_WORDS)):
        text = _SUSPECT_LINE.sub(lambda line: _FOUND_PAIR.sub(random, line[0]), text)
    return text


def _is_placeholder(value: str) -> bool:
    return REDACTED in value or _PLACEHOLDER.search(value) is not None or entropy(value) < LEAST_ENTROPY


def encodings(value: str) -> set[str]:
    """A value as it looks in other notations that a command makes of it: base64, hexadecimal, backwards."""
    found = {value, quote(value, safe=""), quote_plus(value), json.dumps(value)[1:-1]}
    if len(value) < LEAST_ENCODED:
        return found
    data = value.encode("utf-8", "surrogatepass")
    found |= {data.hex(), data.hex().upper(), value[::-1]}
    for before in range(3):
        # In a longer text the value begins at any of three places of a group; what its neighbours change is left out.
        whole = base64.b64encode(b"\0" * before + data).decode().rstrip("=")
        core = whole[(before * 8 + 5) // 6 : (before + len(data)) * 8 // 6]
        found |= {core, core.replace("+", "-").replace("/", "_")}
    return found


LEAST_ENCODED = 8


def _alternation(values: Iterable[str]) -> str:
    """A pattern of any of `values`, the longest first, by first character: most text is passed over at once."""
    groups: dict[str, list[str]] = {}
    for value in sorted(values, key=len, reverse=True):
        # Programs that print other notations break lines and leave gaps.
        gap = r"\s{0,2}" if len(value) >= LEAST_ENCODED else ""
        groups.setdefault(value[0], []).append("".join(gap + re.escape(char) for char in value[1:]))
    return "|".join(f"{re.escape(first)}(?:{'|'.join(rest)})" for first, rest in groups.items())


class Redactor:
    """Redacts credentials in text. Values are added as they become known and never returned."""

    def __init__(self) -> None:
        self._values: frozenset[str] = frozenset()
        self.pattern: re.Pattern[str] | None = None
        """Finds the known values; None while there are none."""

    def __repr__(self) -> str:
        return f"Redactor({len(self._values)} values)"

    def know(self, secrets: Iterable[Secret]) -> None:
        """Redacts these too from now on, also as URLs, JSON, base64, hexadecimal and backwards."""
        values = set(self._values)
        for value in (secret.reveal() for secret in secrets):
            if len(value) >= LEAST_VALUE:
                values |= encodings(value)
        if values == self._values:
            return
        self._values, self.pattern = frozenset(values), re.compile(_alternation(values))

    def known(self, text: str) -> str:
        """`text` without the known values; strings that only look like credentials stay."""
        return text if self.pattern is None else self.pattern.sub(REDACTED, text)

    def __call__(self, text: str) -> str:
        text = _KEY_BLOCK.sub(REDACTED, self.known(text))
        for shape in (_HEADER, _QUOTED, _PAIR, _FLAG, _SCHEME):
            text = shape.sub(_blot, text)
        return redact_shapes(_SHAPES.sub(REDACTED, text))


def _blot(found: re.Match[str]) -> str:
    kept = found["value"].startswith((REDACTED, "${"))
    return found[0] if kept else f"{found['name']}{REDACTED}"


def secrets_in(value: Any) -> Iterator[Secret]:
    """Every credential in a configuration, at any depth."""
    if isinstance(value, Secret):
        yield value
    value = structs.asdict(value) if isinstance(value, Struct) else value
    inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    for item in inside:
        yield from secrets_in(item)


def secret_variables(environ: Mapping[str, str]) -> Iterator[Secret]:
    """The variables whose names suggest a credential, and the logins in addresses of any name."""
    for name, value in environ.items():
        for found in _FOUND_URL.finditer(value):
            yield Secret(found["value"])
            yield Secret(unquote(found["value"]))
        # `MAX_TOKENS=100000` is a number, and would match everywhere.
        if _SECRET_NAME.search(name) and len(value) >= LEAST_VALUE and not (value.isdecimal() and len(value) < 12):
            yield Secret(value)
