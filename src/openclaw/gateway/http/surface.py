"""The HTTP surface: every address, with what it needs and who may use it."""

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct
from starlette.routing import Route

from openclaw.agent.toolrun import Toolbox
from openclaw.core.clock import Clock
from openclaw.core.keys import SessionKey
from openclaw.gateway.http import completions, embeddings, problems, responses, tools
from openclaw.gateway.http.asking import Conversations, Desk
from openclaw.gateway.http.auth import Gatekeeping, Guard
from openclaw.gateway.http.completions import Completions
from openclaw.gateway.http.embeddings import Embed, Embeddings
from openclaw.gateway.http.endpoint import Call, Endpoint, Rules
from openclaw.gateway.http.history import History
from openclaw.gateway.http.listening import Fanout
from openclaw.gateway.http.models import Models
from openclaw.gateway.http.responses import Responses, SessionOf
from openclaw.gateway.http.tools import ToolInvocation
from openclaw.sessions.index import SessionIndex
from openclaw.turns.runs import Runs
from openclaw.wire import scopes


class Switches(Struct, frozen=True, kw_only=True):
    """Which interfaces answer."""

    chat_completions: bool = False
    responses: bool = False


class Parts(Struct, frozen=True, kw_only=True):
    """What the surface is made from."""

    runs: Runs
    fanout: Fanout
    """Hears what `runs` tells."""
    known: Conversations
    session_of: SessionOf
    agents: Callable[[], Sequence[str]]
    toolbox: Callable[[SessionKey, Sequence[str]], Toolbox]
    """The tools of a session, less those named."""
    index: SessionIndex
    embed: Embed | None
    clock: Clock


def routes(parts: Parts, switches: Switches, gatekeeping: Gatekeeping) -> list[Route]:
    """The routes for the web server. They answer every method themselves, so that refusals have one shape."""
    guard = Guard(gatekeeping)
    desk = Desk(parts.runs, parts.fanout)
    chat_off = "" if switches.chat_completions else completions.OFF
    any_off = "" if switches.chat_completions or switches.responses else completions.OFF
    models = Models(parts.agents)

    def route(path: str, rules: Rules, handle: Callable[[Call], Awaitable[None]]) -> Route:
        return Route(path, Endpoint(guard, rules, handle))

    def post(limit: int, off: str) -> Rules:
        return Rules(method="POST", scope=scopes.WRITE, limit=limit, off=off)

    return [
        route(
            "/v1/chat/completions",
            post(completions.BODY_BYTES, chat_off),
            Completions(desk, parts.known, parts.clock),
        ),
        route(
            "/v1/responses",
            post(responses.BODY_BYTES, "" if switches.responses else responses.OFF),
            Responses(desk, parts.known, parts.session_of, parts.clock),
        ),
        route("/v1/embeddings", post(embeddings.BODY_BYTES, chat_off), Embeddings(parts.embed)),
        route("/v1/models", Rules(method="GET", scope=scopes.READ, off=any_off), models.all),
        route("/v1/models/{id:path}", Rules(method="GET", scope=scopes.READ, off=any_off), models.one),
        route(
            "/tools/invoke",
            Rules(method="POST", scope=scopes.WRITE, limit=tools.BODY_BYTES, shape=problems.short_body),
            ToolInvocation(parts.known.key_of, parts.toolbox, parts.clock),
        ),
        route(
            "/sessions/{key:path}/history",
            Rules(method="GET", scope=scopes.SESSIONS_READ),
            History(parts.known.key_of, parts.index),
        ),
    ]
