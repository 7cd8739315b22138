"""Sizes and times as people write them in a configuration. Pure; the schema has checked their form."""

import re

_NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]*)")
_BYTES = {"": 1, "b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}
_SECONDS = {"ms": 0.001, "s": 1.0, "": 60.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


def size_of(value: int | str) -> int:
    """Bytes: `2mb` is 2,097,152."""
    if isinstance(value, int):
        return value
    number, unit = _parts(value)
    return int(number * _BYTES[unit.lower()])


def seconds_of(value: str) -> float:
    """Seconds: `5m` is 300; a bare number counts minutes."""
    number, unit = _parts(value)
    return number * _SECONDS[unit]


def _parts(value: str) -> tuple[float, str]:
    found = _NUMBER.fullmatch(value.strip())
    if found is None:
        raise ValueError(f"not a number with a unit: {value!r}")
    return float(found[1]), found[2]
