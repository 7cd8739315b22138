"""How far a long piece of work is: whoever does it reports, whoever shows it is handed in."""

from collections.abc import Callable, Collection, Iterator
from typing import TypeVar

T = TypeVar("T")

Report = Callable[[str, int, int], None]
"""Told what is done, how much of it is, and how much it is in all."""


def no_report(what: str, done: int, total: int) -> None:
    """For work that nobody watches."""


def reported(items: Collection[T], what: str, report: Report) -> Iterator[T]:
    """`items`, each reported when the next one is asked for."""
    report(what, 0, len(items))
    for done, item in enumerate(items, 1):
        yield item
        report(what, done, len(items))
