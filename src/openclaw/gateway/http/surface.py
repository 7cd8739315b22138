"""The HTTP surface: every address, with what it needs and who may use it."""

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct
from starlette.routing import Route

from openclaw.agent.toolrun import ToolRunner
from openclaw.core.clock import Clock
from openclaw.core.keys import SessionKey
from openclaw.gateway.http import completions, embeddings, problems, responses, tools
from openclaw.gateway.http.asking import Conversations, HttpRunRequests
from openclaw.gateway.http.auth import HttpAuth, HttpGuard
from openclaw.gateway.http.completions import ChatCompletions
from openclaw.gateway.http.embeddings import Embed, Embeddings
from openclaw.gateway.http.endpoint import EndpointRules, HttpCall, HttpEndpoint
from openclaw.gateway.http.history import HistoryEndpoint
from openclaw.gateway.http.listening import RunFanout
from openclaw.gateway.http.models import ModelsEndpoint
from openclaw.gateway.http.responses import Responses, SessionOf
from openclaw.gateway.http.tools import ToolInvocation
from openclaw.sessions.index import SessionIndex
from openclaw.turns.runs import RunService
from openclaw.wire import scopes


class EndpointSwitches(Struct, frozen=True, kw_only=True):
    """Which interfaces answer."""

    chat_completions: bool = False
    responses: bool = False


class HttpParts(Struct, frozen=True, kw_only=True):
    """What the surface is made from."""

    runs: RunService
    fanout: RunFanout
    """Hears what `runs` tells."""
    known: Conversations
    session_of: SessionOf
    agents: Callable[[], Sequence[str]]
    toolbox: Callable[[SessionKey, Sequence[str]], ToolRunner]
    """The tools of a session, less those named."""
    index: SessionIndex
    embed: Embed | None
    clock: Clock


def routes(parts: HttpParts, switches: EndpointSwitches, gatekeeping: HttpAuth) -> list[Route]:
    """The routes for the web server. They answer every method themselves, so that refusals have one shape."""
    guard = HttpGuard(gatekeeping)
    desk = HttpRunRequests(parts.runs, parts.fanout)
    chat_off = "" if switches.chat_completions else completions.OFF
    any_off = "" if switches.chat_completions or switches.responses else completions.OFF
    models = ModelsEndpoint(parts.agents)

    def route(path: str, rules: EndpointRules, handle: Callable[[HttpCall], Awaitable[None]]) -> Route:
        return Route(path, HttpEndpoint(guard, rules, handle))

    def post(limit: int, off: str) -> EndpointRules:
        return EndpointRules(method="POST", scope=scopes.WRITE, limit=limit, off=off)

    return [
        route(
            "/v1/chat/completions",
            post(completions.BODY_BYTES, chat_off),
            ChatCompletions(desk, parts.known, parts.clock),
        ),
        route(
            "/v1/responses",
            post(responses.BODY_BYTES, "" if switches.responses else responses.OFF),
            Responses(desk, parts.known, parts.session_of, parts.clock),
        ),
        route("/v1/embeddings", post(embeddings.BODY_BYTES, chat_off), Embeddings(parts.embed)),
        route("/v1/models", EndpointRules(method="GET", scope=scopes.READ, off=any_off), models.all),
        route("/v1/models/{id:path}", EndpointRules(method="GET", scope=scopes.READ, off=any_off), models.one),
        route(
            "/tools/invoke",
            EndpointRules(method="POST", scope=scopes.WRITE, limit=tools.BODY_BYTES, shape=problems.short_body),
            ToolInvocation(parts.known.key_of, parts.toolbox, parts.clock),
        ),
        route(
            "/sessions/{key:path}/history",
            EndpointRules(method="GET", scope=scopes.SESSIONS_READ),
            HistoryEndpoint(parts.known.key_of, parts.index),
        ),
    ]
