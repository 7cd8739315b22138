"""The HTTP routes: every path, with the scope it needs and the handler."""

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct
from starlette.routing import BaseRoute, Route, Router
from starlette.types import Receive, Scope, Send

from openclaw.agent.settings import agent_ids
from openclaw.agent.tool_runner import ToolRunner
from openclaw.core.clock import Clock
from openclaw.core.keys import SessionKey, parse_session_key
from openclaw.gateway.app import App
from openclaw.gateway.http import completions, embeddings, problems, responses, tools
from openclaw.gateway.http.completions import ChatCompletions
from openclaw.gateway.http.embeddings import Embed, Embeddings, HistoryEndpoint, ModelsEndpoint
from openclaw.gateway.http.endpoint import EndpointRules, HttpAuth, HttpCall, HttpEndpoint, HttpGuard
from openclaw.gateway.http.requests import HttpRunRequests, SessionLookup
from openclaw.gateway.http.responses import Responses, SessionOf
from openclaw.gateway.http.stream import RunFanout
from openclaw.gateway.http.tools import ToolInvocation
from openclaw.protocol import scopes
from openclaw.runs.inbox import Inbox
from openclaw.runs.toolset import Toolset
from openclaw.runs.worker import RunService
from openclaw.sessions.index import SessionIndex

PATHS = (
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/embeddings",
    "/v1/models",
    "/v1/models/{id:path}",
    "/tools/invoke",
    "/sessions/{key:path}/history",
)
"""Those of `routes`."""


class LazyApp:
    """An application that is built at its first request."""

    def __init__(self, make: Callable[[], Sequence[BaseRoute]]) -> None:
        self._make = make
        self._made: Router | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._made is None:
            self._made = Router(self._make())
        await self._made(scope, receive, send)


def lazy_routes(make: Callable[[], Sequence[BaseRoute]], paths: Sequence[str] = PATHS) -> list[Route]:
    """Routes for `paths`, built by `make` at the first request."""
    behind = LazyApp(make)
    return [Route(path, behind) for path in paths]


class EndpointSwitches(Struct, frozen=True, kw_only=True):
    """Which endpoints are enabled."""

    chat_completions: bool = False
    responses: bool = False


class HttpParts(Struct, frozen=True, kw_only=True):
    """What the endpoints are built from."""

    runs: RunService
    fanout: RunFanout
    """Must receive the events of `runs`."""
    known: SessionLookup
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
    requests = HttpRunRequests(parts.runs, parts.fanout)
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
            ChatCompletions(requests, parts.known, parts.clock),
        ),
        route(
            "/v1/responses",
            post(responses.BODY_BYTES, "" if switches.responses else responses.OFF),
            Responses(requests, parts.known, parts.session_of, parts.clock),
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


def parts_of(
    app: App, toolset: Toolset, runs: RunService, inbox: Inbox, fanout: RunFanout, embed: Embed | None = None
) -> HttpParts:
    """What the surface needs of `app`. `fanout` must hear what `runs` tells."""

    async def has_history(key: SessionKey) -> bool:
        row = await app.index.get(key)
        return row is not None and (row.messages > 0 or row.status == "running")

    async def session_of(run_id: str) -> SessionKey | None:
        entry = await inbox.get(run_id)
        return parse_session_key(entry.session_key) if entry else None

    def tool_names() -> frozenset[str]:
        return frozenset(tool.spec.name for tool in toolset.of())

    def agents() -> Sequence[str]:
        return agent_ids(app.live.config.agents)

    def tool_runner(key: SessionKey, without: Sequence[str]) -> ToolRunner:
        return app.preparer.tool_runner(toolset, key, without=without)

    return HttpParts(
        runs=runs,
        fanout=fanout,
        known=SessionLookup(key_of=app.key, has_history=has_history, tool_names=tool_names),
        session_of=session_of,
        agents=agents,
        toolbox=tool_runner,
        index=app.index,
        embed=embed,
        clock=app.clock,
    )
