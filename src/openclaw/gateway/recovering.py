"""After a start: people hear once of what the last life of the gateway left unfinished."""

import logging
from collections.abc import Sequence

from openclaw.core.errors import OpenClawError
from openclaw.core.keys import SessionKey, parse
from openclaw.core.messages import Assistant, Text
from openclaw.gateway.desk import SessionService
from openclaw.turns.runs import ResumedRun

log = logging.getLogger(__name__)

SHOWN_CHARS = 120


async def report_resumed(desk: SessionService, taken: Sequence[ResumedRun]) -> None:
    """Runs that are given up are told of once, in the conversation they belong to.

    One that was taken up again says so beside its own answer (`turns.runs.INTERRUPTED`).
    """
    if taken:
        log.info("took up %d unfinished input(s) of an earlier run", sum(not each.given_up for each in taken))
    for each in taken:
        if not each.given_up:
            continue
        log.warning("the run %s in %s is given up: %s", each.run_id, each.session_key, each.given_up)
        key = parse(each.session_key)
        if not _of_people(key):
            continue
        try:
            # Kept under the run's name: the same run is not announced a second time.
            if await desk.app.events.add(key, _line(each), f"recovery:{each.run_id}:given-up"):
                await _tell(desk, key, each)
        except OpenClawError as error:
            log.warning("nobody could be told of the run %s: %s", each.run_id, error.message)


def _of_people(key: SessionKey) -> bool:
    """Jobs, hooks and sub-agents report to their own; nobody reads along there."""
    return not (key.is_cron or key.is_hook or key.is_subagent or key.rest.startswith("boot:"))


def _line(taken: ResumedRun) -> str:
    """What the assistant is told with its next turn there."""
    return f"A message was never answered, because {taken.given_up}: {_quoted(taken.text)}"


async def _tell(desk: SessionService, key: SessionKey, taken: ResumedRun) -> None:
    """A word in the conversation itself, where otherwise a question would stand without an answer."""
    text = (
        f"I could not answer {_quoted(taken.text)}: the gateway ended while I worked on it, again and again. "
        "Send it once more if it still matters."
    )
    message = Assistant(content=(Text(text),), provider="openclaw", model="recovery", timestamp=desk.now)
    await desk.app.turns.inject(key, message, f"recovery:{taken.run_id}")
    await desk.changed(key, "inject")


def _quoted(text: str) -> str:
    line = " ".join(text.split())
    return f"\u201c{line if len(line) <= SHOWN_CHARS else line[: SHOWN_CHARS - 1] + '…'}\u201d"
