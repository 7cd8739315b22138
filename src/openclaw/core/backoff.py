"""Growing pauses between attempts. Pure."""

from msgspec import Struct


class Backoff(Struct, frozen=True):
    """Each pause is twice the one before, from `first` up to `longest`."""

    first: float
    longest: float

    def after(self, failures: int, jitter: float | None = None) -> float:
        """How long to wait after so many failures in a row.

        With `jitter`, a number between 0 and 1, a quarter less to a quarter more: lest all come back at once.
        """
        pause = min(self.longest, self.first * 2.0 ** min(max(0, failures - 1), 40))
        return pause if jitter is None else pause * (0.75 + jitter / 2)
