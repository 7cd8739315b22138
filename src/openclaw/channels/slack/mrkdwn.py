"""Our Markdown as Slack's mrkdwn. Pure.

It is written from the parsed tree. Slack takes a mark only at the edge of a word and within a line: a zero-width space
makes the edge where there is none, and a style that goes over several lines is written on each.
"""

import re
from collections.abc import Sequence

from openclaw.channels.rich import StyledSpan, parse_markdown

_MARKS = {"bold": "*", "italic": "_", "strike": "~", "code": "`"}
_EDGE = "\u200b"
_PERSON = re.compile(r"&lt;@([UW][A-Z0-9]{2,20})&gt;")
_LINKS = ("http://", "https://", "mailto:", "tel:")


def escape(text: str) -> str:
    """Text in which nothing has a meaning to Slack but the name of a person: it can quote <!channel>."""
    bare = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _PERSON.sub(r"<@\1>", bare)


def encode_text(markdown: str) -> str:
    """The text with its styles, as Slack writes them."""
    rich = parse_markdown(markdown)
    found, at = [], 0
    for span in rich.spans:
        if span.style != "pre" or span.start < at:
            continue
        found += _lines(rich.text, rich.spans, at, span.start)
        code = rich.text[span.start : span.end].replace("```", f"``{_EDGE}`")
        found.append(f"```\n{escape(code)}\n```")
        at = span.end
    return "".join([*found, *_lines(rich.text, rich.spans, at, len(rich.text))])


def _lines(text: str, spans: Sequence[StyledSpan], start: int, end: int) -> list[str]:
    quotes = [each for each in spans if each.style == "quote"]
    inline = [each for each in spans if each.style in _MARKS or each.style == "link"]
    found, at = [], start
    for line in text[start:end].splitlines(keepends=True):
        here = at + len(line.rstrip("\n"))
        quoted = any(each.start <= at < each.end or each.start == here for each in quotes)
        mark = "> " if quoted and (at == 0 or text[at - 1] == "\n") else ""
        within = [each for each in (_clip(text, each, at, here) for each in inline) if each is not None]
        found.append(mark + _inline(text, within, at, here) + line[here - at :])
        at += len(line)
    return found


def _clip(text: str, span: StyledSpan, start: int, end: int) -> StyledSpan | None:
    """The part of a span on one line, without the blanks at its ends."""
    low, high = max(span.start, start), min(span.end, end)
    while low < high and text[low].isspace():
        low += 1
    while low < high and text[high - 1].isspace():
        high -= 1
    return StyledSpan(low, high, span.style, span.extra) if low < high else None


def _inline(text: str, spans: Sequence[StyledSpan], start: int, end: int) -> str:
    found, at = [], start
    for place, span in enumerate(spans):
        if span.start < at or span.end > end:
            continue
        found.append(escape(text[at : span.start]))
        inside = [each for each in spans[place + 1 :] if each.start >= span.start and each.end <= span.end]
        found.append(_styled(text, span, inside))
        at = span.end
    return "".join([*found, escape(text[at:end])])


def _styled(text: str, span: StyledSpan, inside: Sequence[StyledSpan]) -> str:
    if span.style == "link":
        return _link(span.extra, _inline(text, inside, span.start, span.end), text[span.start : span.end])
    body = text[span.start : span.end]
    # Nothing inside code has a style; a code that holds its own mark is shown without one.
    body = escape(body) if span.style == "code" else _inline(text, inside, span.start, span.end)
    if span.style == "code" and "`" in body:
        return body
    mark = _MARKS[span.style]
    before, after = text[span.start - 1 : span.start], text[span.end : span.end + 1]
    left, right = (_EDGE if each.isalnum() else "" for each in (before, after))
    return f"{left}{mark}{body}{mark}{right}"


def _link(address: str, label: str, said: str) -> str:
    if not address.lower().startswith(_LINKS):
        return label if not address or address.startswith("#") or address == said else f"{label} ({escape(address)})"
    url = address.replace("|", "%7C").replace("<", "%3C").replace(">", "%3E").replace("&", "&amp;")
    return f"<{url}>" if address == said else f"<{url}|{label}>"
