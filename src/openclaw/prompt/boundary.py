"""Splits, removes and inserts the cache boundary marker in a rendered prompt."""

from openclaw.core.text import CACHE_BOUNDARY

MARKER = CACHE_BOUNDARY.strip()


def split(text: str) -> tuple[str, str | None]:
    """The stable and the dynamic part at the first boundary; without one there is no dynamic part."""
    stable, mark, dynamic = text.partition(CACHE_BOUNDARY)
    return (stable.rstrip(), dynamic.lstrip()) if mark else (text, None)


def strip(text: str) -> str:
    """`text` without any boundary, for providers that cannot cache a prefix."""
    return text.replace(CACHE_BOUNDARY, "\n").replace(MARKER, "")


def ensure(text: str) -> str:
    """`text` with a boundary at its end if it has none."""
    return text if CACHE_BOUNDARY in text else text.rstrip() + CACHE_BOUNDARY


def add_after(text: str, addition: str) -> str:
    """`text` with `addition` where it cannot disturb the cached prefix; without a boundary it goes first."""
    addition = addition.strip()
    if not addition:
        return text
    stable, dynamic = split(text)
    if dynamic is None:
        return f"{addition}\n\n{text}"
    return f"{stable}{CACHE_BOUNDARY}{addition}\n\n{dynamic}" if dynamic else f"{stable}{CACHE_BOUNDARY}{addition}"
