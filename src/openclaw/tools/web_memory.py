"""What the web tools fetched a moment ago, so that asking again costs nothing."""

from collections import OrderedDict
from typing import Any, Protocol

from openclaw.core.clock import Clock

ENTRIES = 100


class Wrap(Protocol):
    """Encloses external text so that the model can tell it from ours; `warn` only once a result."""

    def __call__(self, content: str, source: str, *, warn: bool = True) -> str: ...


class WebCache:
    """Answers by request, the oldest forgotten first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: OrderedDict[tuple[Any, ...], tuple[float, dict[str, Any]]] = OrderedDict()

    def recall(self, key: tuple[Any, ...], seconds: float) -> dict[str, Any] | None:
        found = self._kept.get(key)
        if found is None or self._clock.now() - found[0] > seconds:
            return None
        return found[1]

    def keep(self, key: tuple[Any, ...], value: dict[str, Any]) -> None:
        self._kept[key] = (self._clock.now(), value)
        self._kept.move_to_end(key)
        while len(self._kept) > ENTRIES:
            self._kept.popitem(last=False)
