"""What nobody comes back to is put away after a while: conversations of single runs, and sandboxes."""

import asyncio
import logging

from openclaw.core.clock import millis
from openclaw.core.errors import NotFound, OpenClawError, SessionBusy
from openclaw.core.keys import SessionKey
from openclaw.cron.schedule import duration
from openclaw.gateway.desk import SessionService
from openclaw.sessions.index import SessionRow
from openclaw.turns.agents import agent_ids

log = logging.getLogger(__name__)

AT_ONCE = 200
"""A sweep takes no longer than so many; the next one goes on."""


async def sweep_boxes(desk: SessionService) -> None:
    """Empties sandboxes that nobody uses any more (`sandbox.prune`)."""
    app = desk.app
    agents = list(agent_ids(app.config.agents))
    try:
        roots = {app.boxes.root(app.boxes.rules(agent)) for agent in agents}
    except OpenClawError as error:
        log.warning("sandboxes are left as they are: %s", error.message)
        return
    if not any([await asyncio.to_thread(root.is_dir) for root in roots]):
        return
    # Most homes have no sandbox: what it takes is loaded by those that do.
    from openclaw.gateway.pruning import prune

    busy = app.tools.standing.background.boxed() if app.tools.has_standing.is_set() else set()
    await prune(app.boxes, agents, busy, app.clock)


async def sweep(desk: SessionService) -> int:
    """Removes what is older than `cron.sessionRetention`, transcript and all; gives how many went."""
    kept = desk.app.config.cron.session_retention
    if kept is False:
        return 0
    try:
        before = millis(desk.app.clock) - duration("24h" if kept is True else kept)
    except OpenClawError as error:
        log.warning("cron.sessionRetention: %s", error.message)
        return 0
    gone = 0
    for row in await desk.app.index.list():
        key = SessionKey(row.agent_id, row.session_key.removeprefix(f"agent:{row.agent_id}:"))
        if not disposable(key) or row.updated_at >= before or desk.runs.active(key):
            continue
        gone += await _remove(desk, key, row)
        if gone >= AT_ONCE:
            break
    if gone:
        log.info("removed %d conversation(s) of single runs", gone)
    return gone


def disposable(key: SessionKey) -> bool:
    """Whether a conversation was for one run: of a job, or of BOOT.md."""
    return key.is_cron_run or key.rest.startswith("boot:")


async def _remove(desk: SessionService, key: SessionKey, row: SessionRow) -> bool:
    try:
        aside = await desk.lifecycle.delete(key, row.session_id)
    except (NotFound, SessionBusy):
        return False  # somebody else was quicker, or it is in use after all
    if aside is not None:
        path = desk.app.index.path(row.agent_id, row.session_id).with_name(aside)
        await asyncio.to_thread(path.unlink, True)
    return True
