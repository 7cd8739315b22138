"""Regular expressions that are compiled at their first use.

Compiling takes milliseconds where a pattern names ranges of characters, and a process that starts needs few of them.
"""

import re
from typing import Any, cast

_PARTS = ("search", "match", "fullmatch", "finditer", "findall", "sub", "subn", "split", "pattern", "flags")


class _Lazy:
    def __init__(self, pattern: str, flags: int) -> None:
        self._source = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        # Reached once: from then on the parts of the compiled pattern are this object's own.
        if name not in _PARTS:
            raise AttributeError(name)
        compiled = re.compile(*self._source)
        for part in _PARTS:
            setattr(self, part, getattr(compiled, part))
        return getattr(compiled, name)


def lazy(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """A pattern for a module to hold."""
    return cast(re.Pattern[str], _Lazy(pattern, flags))
