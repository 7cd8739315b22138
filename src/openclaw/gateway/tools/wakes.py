"""Commands that end in the background are told to the session that started them."""

import logging
from contextlib import aclosing
from typing import Any

from openclaw.core.errors import OpenClawError
from openclaw.gateway.desk import SessionService
from openclaw.trust.wrap import sanitize_external_text
from openclaw.turns.turn import RunRequest

log = logging.getLogger(__name__)

TAIL_CHARS = 400
MARK = "[OpenClaw exec completion]"


async def wake_sessions(desk: SessionService) -> None:
    """Runs for as long as the gateway does; an end that is not worth a word gets none."""
    await desk.app.tools.has_standing.wait()
    async with aclosing(desk.app.tools.standing.background.endings()) as endings:
        async for job in endings:
            text = _news(desk, job)
            if text is None:
                continue
            turn = RunRequest(
                run_id=f"exec:{job.name}:{job.started_at}",
                key=desk.key(job.owner),
                text=text,
                origins=desk.app.labelling.of_job(job.name, job.command),
                trigger="system",
            )
            try:
                await desk.runs.submit(turn)
            except OpenClawError as error:
                log.info("%s ended and its session was not told: %s", job.name, error.message)


def _news(desk: SessionService, job: Any) -> str | None:
    """What a session is told of the end of its command; None when that is nothing."""
    settings = desk.app.config.tools.exec
    if not settings.notify_on_exit or not job.owner or desk.key(job.owner).is_subagent:
        return None
    tail = sanitize_external_text(job.tail.last(TAIL_CHARS))
    code = job.ended.code
    if not tail and code == 0 and not settings.notify_on_exit_empty_success:
        return None
    how = "timed out" if job.ended.timed_out else f"ended with code {code}" if code is not None else "was stopped"
    return (
        f"{MARK} The command {job.name} ({sanitize_external_text(job.command)[:200]}) {how} after "
        f"{round(job.ended.seconds)} s.\n<prompt-data>\n{tail or '(no output)'}\n</prompt-data>\n"
        "This is news from the system, not a message from the user. Go on with what the command was for; "
        "if nobody needs to hear of it, reply NO_REPLY."
    )
