"""Roles and scopes: what implies what, and who receives which event. Pure."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Literal, get_args

from openclaw.protocol.frames import FORBIDDEN, INVALID_REQUEST, ErrorShape

Role = Literal["operator", "node"]
ROLES: tuple[Role, ...] = get_args(Role)

ADMIN = "operator.admin"
READ = "operator.read"
WRITE = "operator.write"
APPROVALS = "operator.approvals"
QUESTIONS = "operator.questions"
PAIRING = "operator.pairing"
TALK = "operator.talk"
TALK_SECRETS = "operator.talk.secrets"
SESSIONS_READ = "operator.sessions.read"
SESSIONS_WRITE = "operator.sessions.write"

PEER = "cluster.peer"
"""Of the gateways of one cluster among themselves: no client is granted it, and nothing implies it."""

SCOPES = (ADMIN, READ, WRITE, APPROVALS, QUESTIONS, PAIRING, TALK, TALK_SECRETS, SESSIONS_READ, SESSIONS_WRITE)

_IMPLIED: dict[str, frozenset[str]] = {
    ADMIN: frozenset(SCOPES),
    WRITE: frozenset((WRITE, READ, TALK, SESSIONS_READ, SESSIONS_WRITE)),
    READ: frozenset((READ, SESSIONS_READ)),
    SESSIONS_WRITE: frozenset((SESSIONS_WRITE, SESSIONS_READ)),
}

WRONG_ROLE = "unauthorized role: "


def known(scopes: Iterable[str]) -> tuple[str, ...]:
    """The scopes that exist, in the given order, each once."""
    return tuple(dict.fromkeys(scope for scope in scopes if scope in SCOPES))


@lru_cache(maxsize=1024)
def allows(held: tuple[str, ...], needed: str | None) -> bool:
    """Whether `held` scopes permit what needs `needed`; None needs nothing."""
    return needed is None or any(needed in _IMPLIED.get(scope, (scope,)) for scope in held)


def covers(held: Iterable[str], wanted: Iterable[str]) -> bool:
    """Whether `held` includes everything in `wanted`."""
    held = tuple(held)
    return all(allows(held, scope) for scope in wanted)


def missing_scope(needed: str) -> ErrorShape:
    return ErrorShape(
        code=FORBIDDEN,
        message=f"missing scope: {needed}",
        details={"code": "MISSING_SCOPE", "missingScope": needed, "requiredScopes": [needed]},
    )


def wrong_role(role: str) -> ErrorShape:
    return ErrorShape(code=INVALID_REQUEST, message=f"{WRONG_ROLE}{role}")


def is_wrong_role(error: object) -> bool:
    return isinstance(error, ErrorShape) and error.message.startswith(WRONG_ROLE)


_TO_READERS = """
agent board.changed board.command chat chat.send_timing chat.side_result config.changed
controlUi.sessionPullRequests.changed cron mentions.changed models.changed node.hostStats node.presence
node.runnerInventory.changed plugins.changed plugins.controlUi.changed portal.changed presence progressCard.changed
session.long_running session.message session.observer session.operation session.recovery.completed
session.recovery.requested session.sharing session.sharing.evidence session.stalled session.stuck session.suggestion
session.tool session.typing sessions.catalog.host sessions.changed skills.changed talk.event task task.suggestion
ui.command users.prefs.changed
voicewake.changed voicewake.routing.changed
""".split()
_TO_APPROVERS = """
exec.approval.requested exec.approval.resolved openclaw.approval.requested openclaw.approval.resolved
plugin.approval.requested plugin.approval.resolved session.approval
""".split()
_TO_PAIRERS = """
device.pair.changed device.pair.requested device.pair.resolved device.pair.setup.completed
device.pair.setup.deliveryUncertain node.pair.requested node.pair.resolved
""".split()
_TO_ADMINS = "plugins.install.progress terminal.data terminal.exit update.run.changed".split()
_TO_ALL = "gateway.suspension health heartbeat shutdown tick update.available".split()

EVENT_SCOPES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_TO_READERS, (READ,)),
    **dict.fromkeys(_TO_APPROVERS, (APPROVALS,)),
    **dict.fromkeys(_TO_PAIRERS, (PAIRING,)),
    **dict.fromkeys(_TO_ADMINS, (ADMIN,)),
    **dict.fromkeys(_TO_ALL, ()),
    "chat.metadata.changed": (READ, SESSIONS_READ),
    "question.requested": (QUESTIONS,),
    "question.resolved": (QUESTIONS,),
    "talk.mode": (TALK,),
    "talk.voice.change": (TALK,),
}
"""Each broadcast and the scopes of which one suffices; an empty tuple means every connection."""


@lru_cache(maxsize=64)
def receivable_events(held: tuple[str, ...]) -> frozenset[str]:
    """The broadcasts a connection with `held` receives; an event not in the table goes to nobody."""
    return frozenset(
        event for event, needed in EVENT_SCOPES.items() if not needed or any(allows(held, scope) for scope in needed)
    )
