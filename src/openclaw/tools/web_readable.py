"""Converts a web page to readable Markdown, without menus, scripts and hidden text. No I/O."""

import importlib.util
import logging
import re
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from urllib.parse import urljoin

from msgspec import Struct

log = logging.getLogger(__name__)

_VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())
_DROPPED = frozenset(
    "script style noscript template svg math iframe object canvas form button select textarea dialog nav aside footer "
    "audio video map".split()
)
_BLOCKS = frozenset(
    "p div section article main header figure figcaption blockquote ul ol dl dt dd table tr pre address details "
    "summary h1 h2 h3 h4 h5 h6 hr li".split()
)
_CLOSING = {"pre": "\n```", "strong": "**", "b": "**", "em": "*", "i": "*"}
_OPENING = {**_CLOSING, "pre": "```\n", "blockquote": "> ", **{f"h{level}": "#" * level + " " for level in range(1, 7)}}
_INVISIBLE = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0(?![.\d])|opacity\s*:\s*0(?![.\d])"
)
_SPACES = re.compile(r"[ \t\r\n\f\v]+")
_MANY_LINES = re.compile(r"\n{3,}")
ENOUGH = 200
"""Characters a <main> or <article> needs to count as the page's content."""


class Readable(Struct, frozen=True):
    """The title and text of a page, and the extractor used."""

    title: str
    text: str
    extractor: str


def html_to_markdown(html: str) -> str:
    """All visible text of a page or a mail as Markdown."""
    page = _Page("", markdown=True)
    page.feed(html)
    page.close()
    return _tidied(page.everything)


def extract_readable(html: str, url: str, *, markdown: bool) -> Readable:
    """The readable content of a page. If trafilatura is installed, it selects the main part."""
    page = _Page(url, markdown=markdown)
    page.feed(html)
    page.close()
    extract = _main_part_extractor()
    if extract is not None:
        text = extract(
            html,
            url=url,
            output_format="markdown" if markdown else "txt",
            include_links=markdown,
            include_tables=True,
            include_comments=False,
        )
        if text and len(text) >= ENOUGH:
            return Readable(page.title, text, "trafilatura")
    return Readable(page.title, page.text, "builtin")


@cache
def _main_part_extractor() -> Callable[..., str | None] | None:
    """trafilatura's, when it and all its parts are there; an installation with a part missing is named once."""
    if importlib.util.find_spec("trafilatura") is None:
        return None
    try:
        extract: Callable[..., str | None] = importlib.import_module("trafilatura").extract
    except ImportError as error:
        log.warning("trafilatura cannot be used (%s): pages are read without it. Install the extra web again", error)
        return None
    return extract


class _Page(HTMLParser):
    def __init__(self, url: str, *, markdown: bool) -> None:
        super().__init__(convert_charrefs=True)
        self._url = url
        self._markdown = markdown
        self._open: list[tuple[str, bool]] = []
        """Open elements, each with whether it hides its content."""
        self._hidden = 0
        self._all: list[str] = []
        self._main: list[str] = []
        self._in_main = 0
        self._in_pre = 0
        self._title: list[str] = []
        self._links: list[tuple[str, int]] = []
        self._lists: list[int | None] = []

    @property
    def title(self) -> str:
        return _SPACES.sub(" ", "".join(self._title)).strip()

    @property
    def everything(self) -> list[str]:
        return self._all

    @property
    def text(self) -> str:
        main = _tidied(self._main)
        return main if len(main) >= ENOUGH else _tidied(self._all)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in _VOID:
            self._void(tag, given)
            return
        self._close_implied(tag)
        hides = tag in _DROPPED or _is_hidden(given)
        self._open.append((tag, hides))
        self._hidden += hides
        if self._hidden:
            return
        if tag in ("main", "article"):
            self._in_main += 1
        self._begin(tag, given)

    def handle_endtag(self, tag: str) -> None:
        if tag not in (name for name, _ in self._open):
            return
        while self._open:
            name, hides = self._open.pop()
            if not self._hidden:
                self._finish(name)
            self._hidden -= hides
            if name == tag:
                return

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1][0] == "title":
            if "svg" not in (name for name, _ in self._open):
                self._title.append(data)
        elif not self._hidden and not any(name == "head" for name, _ in self._open[:3]):
            self._put(data if self._in_pre else _SPACES.sub(" ", data))

    def _close_implied(self, tag: str) -> None:
        """Closes paragraphs, list items and cells where the next one starts."""
        last = self._open[-1][0] if self._open else ""
        pairs = {"p": _BLOCKS, "li": {"li"}, "tr": {"tr"}, "td": {"td", "th", "tr"}, "th": {"td", "th", "tr"}}
        if tag in pairs.get(last, ()):
            self.handle_endtag(last)

    def _begin(self, tag: str, given: dict[str, str | None]) -> None:
        if tag in _BLOCKS:
            self._put("\n" if tag in ("li", "tr", "dt", "dd") else "\n\n")
        if tag in ("ul", "ol"):
            self._lists.append(0 if tag == "ol" else None)
        elif tag == "li":
            self._put(self._bullet())
        elif tag == "pre":
            self._in_pre += 1
        elif tag in ("td", "th"):
            self._put("| " if self._markdown else "\t")
        elif tag == "a":
            self._links.append((given.get("href") or "", len(self._all)))
        if self._markdown:
            self._put(_OPENING.get(tag, ""))

    def _finish(self, tag: str) -> None:
        if self._markdown:
            self._put(_CLOSING.get(tag, ""))
            if tag == "a" and self._links:
                self._link(*self._links.pop())
        if tag in ("td", "th") and self._markdown:
            self._put(" ")
        if tag in ("ul", "ol") and self._lists:
            self._lists.pop()
        if tag == "pre":
            self._in_pre -= 1
        if tag in _BLOCKS and tag not in ("li", "tr", "dt", "dd"):
            self._put("\n\n")
        if tag in ("main", "article"):
            self._in_main -= 1

    def _void(self, tag: str, given: dict[str, str | None]) -> None:
        if self._hidden:
            return
        if tag == "br":
            self._put("\n")
        elif tag == "hr":
            self._put("\n\n---\n\n" if self._markdown else "\n\n")
        elif tag == "img" and (given.get("alt") or "").strip():
            self._put(f"[image: {_SPACES.sub(' ', given['alt'] or '').strip()}]")

    def _bullet(self) -> str:
        indent = "  " * max(0, len(self._lists) - 1)
        if not self._lists or self._lists[-1] is None:
            return f"{indent}- "
        self._lists[-1] = number = self._lists[-1] + 1
        return f"{indent}{number}. "

    def _link(self, target: str, since: int) -> None:
        words = "".join(self._all[since:]).strip()
        try:
            address = urljoin(self._url, target.strip())
        except ValueError:
            return
        if words and address.startswith(("http://", "https://")) and not target.startswith("#"):
            self._put(f" ({address})")

    def _put(self, text: str) -> None:
        if text:
            self._all.append(text)
            if self._in_main:
                self._main.append(text)


def _is_hidden(given: dict[str, str | None]) -> bool:
    """Whether an element is invisible: hidden text is a common place for injections."""
    return (
        "hidden" in given
        or (given.get("aria-hidden") or "").lower() == "true"
        or _INVISIBLE.search((given.get("style") or "").lower()) is not None
    )


def _tidied(parts: list[str]) -> str:
    lines = [line.rstrip() for line in "".join(parts).split("\n")]
    return _MANY_LINES.sub("\n\n", "\n".join(lines)).strip()


class _Words(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.words: list[str] = []

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def strip_tags(text: str) -> str:
    """`text` without the tags that engines put around matches."""
    page = _Words()
    page.feed(text)
    page.close()
    return " ".join("".join(page.words).split())
