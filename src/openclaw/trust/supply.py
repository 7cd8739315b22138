"""Looking through the files of something to be installed: words, shapes and kinds of file. Pure."""

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from openclaw.core.patterns import lazy
from openclaw.core.text import fold
from openclaw.trust.attacks import RULES, AttackRule, Severity
from openclaw.trust.scan import scan

MAX_FILE = 1 << 18
MAX_TOTAL = 1 << 21
"""More than this nobody would read either; the rest is named instead of looked through."""
PER_RULE = 5
BLOB = 240


class ScanFinding(Struct, frozen=True, kw_only=True):
    """One thing to look at, and where."""

    rule: str
    severity: Severity
    message: str
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{self.severity}: {where}: {self.message} [{self.rule}]"


_ORDERS = lazy(
    r"https?://|\b(?:run|execute|send|read|curl|upload|ignore|forward|instruction|assistant|agent|must|always)\b", re.I
)
_BASE64 = lazy(rf"[A-Za-z0-9+/]{{{BLOB},}}={{0,2}}")
_HEX = lazy(rf"(?:\\x[0-9a-fA-F]{{2}}){{40,}}|\b[0-9a-fA-F]{{{2 * BLOB},}}\b")
_PADDED = lazy(r"\S[ \t\u00a0\u3000]{120,}\S")
_TAGS = lazy("[\U000e0000-\U000e007f]")
_MAGIC = (
    (b"\x7fELF", "a compiled Linux program"),
    (b"MZ", "a compiled Windows program"),
    (b"\xcf\xfa\xed\xfe", "a compiled macOS program"),
    (b"\xca\xfe\xba\xbe", "a compiled macOS or Java program"),
    (b"\xfe\xed\xfa\xcf", "a compiled macOS program"),
    (b"!<arch>", "a compiled library"),
)
_ARCHIVES = ((b"PK\x03\x04", "zip"), (b"\x1f\x8b", "gzip"), (b"7z\xbc\xaf", "7z"), (b"Rar!", "rar"))
_OFFICE = (".docx", ".xlsx", ".pptx", ".odt", ".ods", ".epub")
_RUNNABLE = (
    ".exe",
    ".scr",
    ".msi",
    ".lnk",
    ".pyc",
    ".pyo",
    ".so",
    ".dylib",
    ".dll",
    ".jar",
    ".pkg",
    ".dmg",
    ".app",
    ".hta",
)
_LOADED_BY_OTHERS = (".npmrc", ".pypirc", "sitecustomize.py", "usercustomize.py", ".envrc", "conftest.py", ".mcp.json")


def inspect(files: Mapping[str, bytes]) -> tuple[ScanFinding, ...]:
    """Everything worth a look in `files`, by path; the grave first."""
    found: list[ScanFinding] = []
    left = MAX_TOTAL
    for path, data in sorted(files.items()):
        found += _kind(path, data)
        if b"\0" in data[:8_192]:
            continue
        part = data[: min(left, MAX_FILE)]
        left -= len(part)
        found += _text(path, part.decode("utf-8", "replace"))
        if len(part) < len(data):
            message = f"is longer than what is looked through ({len(part):,} of {len(data):,} bytes)"
            found.append(ScanFinding(rule="too-long", severity="warn", message=message, file=path))
    return tuple(sorted(found, key=lambda finding: (finding.severity != "critical", finding.file, finding.line)))


def _text(path: str, text: str) -> Iterator[ScanFinding]:
    yield from _words(path, text)
    yield from _shapes(path, text)
    folded = fold(text)
    lowered = folded.lower()
    for rule in RULES:
        if any(word in lowered for word in rule.needs):
            yield from _matches(rule, path, folded)


def _kind(path: str, data: bytes) -> Iterator[ScanFinding]:
    name = path.rpartition("/")[2].lower()
    for magic, what in _MAGIC:
        if data.startswith(magic):
            yield ScanFinding(rule="compiled", severity="critical", message=f"is {what}; nobody can read it", file=path)
            return
    if name.endswith(_RUNNABLE):
        yield ScanFinding(rule="compiled", severity="critical", message="is a kind of file that runs unread", file=path)
    elif name in _LOADED_BY_OTHERS:
        yield ScanFinding(
            rule="loaded-unasked", severity="warn", message="is read by other programs unasked", file=path
        )
    elif any(data.startswith(magic) for magic, _ in _ARCHIVES) and not name.endswith(_OFFICE):
        yield ScanFinding(rule="nested-archive", severity="warn", message="is an archive inside the skill", file=path)


def _words(path: str, text: str) -> Iterator[ScanFinding]:
    """What the general scan of text sends a person to look at."""
    for found in scan(text):
        if found.kind == "pattern" and found.severity == "warn" and not path.endswith((".md", ".txt")):
            continue  # a script may say `rm -rf build`; prose that gives orders is another matter
        if found.kind == "pattern" and found.severity == "warn" and "rm" in found.detail:
            continue
        yield ScanFinding(
            rule=f"text-{found.kind}", severity=found.severity, message=found.detail, file=path, line=found.line
        )


def _shapes(path: str, text: str) -> Iterator[ScanFinding]:
    for found in _TAGS.finditer(text):
        yield _at("invisible-text", "critical", "hides text in invisible characters", path, text, found.start())
        break
    if path.endswith(".md"):
        for start, inside in _comments(text):
            if _ORDERS.search(inside):
                yield _at("hidden-comment", "warn", "gives orders in a comment people do not see", path, text, start)
                break
    for found in _BASE64.finditer(text):
        before = text[max(0, found.start() - 40) : found.start()]
        if "data:image/" not in before and "data:font/" not in before and not path.endswith((".svg", ".pem", ".lock")):
            yield _at("encoded-blob", "warn", "holds a long encoded blob", path, text, found.start())
            break
    for found in _HEX.finditer(text):
        yield _at("encoded-blob", "warn", "holds a long run of hexadecimal digits", path, text, found.start())
        break
    for found in _PADDED.finditer(text):
        yield _at("padded-line", "warn", "pushes text out of sight with a long gap", path, text, found.start())
        break


def _comments(text: str) -> Iterator[tuple[int, str]]:
    end = 0
    while (start := text.find("<!--", end)) >= 0:
        end = text.find("-->", start + 4)
        if end < 0:
            return
        yield start, text[start + 4 : min(end, start + 4_000)]


def _matches(rule: AttackRule, path: str, text: str) -> Iterator[ScanFinding]:
    for number, found in enumerate(rule.pattern.finditer(text)):
        if number >= PER_RULE:
            return
        start = found.start() + len(found.group()) - len(found.group().lstrip())
        yield _at(rule.name, rule.severity, rule.message, path, text, start)


def _at(rule: str, severity: Severity, message: str, path: str, text: str, at: int) -> ScanFinding:
    return ScanFinding(rule=rule, severity=severity, message=message, file=path, line=text.count("\n", 0, at) + 1)
