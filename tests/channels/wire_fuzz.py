"""Messages as a platform sends them, changed anywhere, for what reads them."""

import copy
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

JUNK: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(([], {}, [{}]))
)


def paths(value: Any, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to everything inside `value`."""
    found = [before] if before else []
    for key, each in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        found += paths(each, (*before, key))
    return found


@st.composite
def mutated(draw: st.DrawFn, recorded: Sequence[Any]) -> tuple[int, Any]:
    """One of `recorded`, by its place, with up to three values replaced or taken out."""
    kind = draw(st.integers(0, len(recorded) - 1))
    value = copy.deepcopy(recorded[kind])
    for _ in range(draw(st.integers(1, 3))):
        if not (ways := paths(value)):
            break
        *way, last = draw(st.sampled_from(ways))
        place: Any = value
        for key in way:
            place = place[key]
        if draw(st.booleans()):
            place[last] = draw(JUNK)
        elif isinstance(place, dict):
            del place[last]
    return kind, value
