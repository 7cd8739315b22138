"""The undo journal as the labels of a run use it."""

from collections.abc import Mapping, Sequence

from openclaw.core.errors import NotFound
from openclaw.undo.journal import Journal
from openclaw.undo.plan import GONE, Before


class RunJournal:
    """The journal, for one session. Without a run there is nothing to undo by, but a note still needs its old text."""

    def __init__(self, journal: Journal, session_key: str) -> None:
        self._journal = journal
        self._session = session_key

    def keep(self, run_id: str, tool: str, paths: Sequence[str]) -> Mapping[str, Before]:
        return self._journal.keep(run_id, self._session, tool, paths)

    def settled(self, run_id: str, before: Before | None) -> bool:
        """Whether the file was changed; one that was not kept counts as changed."""
        return before is None or self._journal.settled(run_id, before)

    def ran(self, run_id: str, command: str) -> None:
        self._journal.ran(run_id, self._session, command)

    def text_before(self, before: Before | None) -> str:
        if before is None or before.digest in (GONE, "?"):
            return ""
        try:
            return self._journal.content(before.digest).decode("utf-8", "replace")
        except NotFound:
            return ""
