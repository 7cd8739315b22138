"""JSON5: plain JSON is read at once, anything else by a library that is loaded then."""

from typing import Any

import msgspec


def decode(text: str, depth: int) -> Any:
    """The value in `text`, nested at most `depth` levels deep; what is wrong is a `Json5Exception` of the library."""
    try:
        plain = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return library().decode(text, depth)
    return plain if _fits(plain, depth) else library().decode(text, depth)


def library() -> Any:
    """The library, for its exceptions."""
    import pyjson5  # slow to load, and what programs write is plain JSON

    return pyjson5


def _fits(data: Any, depth: int) -> bool:
    if not isinstance(data, dict | list):
        return True
    return depth > 0 and all(_fits(each, depth - 1) for each in (data.values() if isinstance(data, dict) else data))
