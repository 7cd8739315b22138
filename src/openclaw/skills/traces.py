"""What a look at skills saw of the disk: as long as all of that is the same, so is what was found."""

from collections.abc import Iterable

from openclaw.store.tree import RACY, Identity, identity_at

MOST_HERE = 300
"""Files and directories that are quicker asked about than handed to a thread."""


class ScanCache:
    """Everything one look depended on, as it was."""

    def __init__(self) -> None:
        self._seen: dict[str, Identity | None] = {}

    def note(self, paths: Iterable[str]) -> None:
        """Notes files and directories, also those that are not there."""
        for path in paths:
            self._seen[path] = identity_at(path)

    @property
    def few(self) -> bool:
        return len(self._seen) <= MOST_HERE

    def settled(self, started: float) -> bool:
        """Whether all of it is older than the look itself, so that a change since then is sure to show."""
        newest = max((max(seen[3], seen[4]) for seen in self._seen.values() if seen is not None), default=0)
        return newest < (started - RACY) * 1e9

    def hold(self) -> bool:
        """Whether everything is as it was."""
        return all(identity_at(path) == before for path, before in self._seen.items())
