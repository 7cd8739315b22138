"""Addresses that plugins brought: looked up for each request, because plugins come and go."""

import logging
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from openclaw.core.errors import OpenClawError
from openclaw.core.plugin import HttpRequest, HttpRoute
from openclaw.gateway.http import problems
from openclaw.gateway.http.auth import HttpAuth, HttpGuard
from openclaw.gateway.http.problems import HttpProblem
from openclaw.gateway.server import body_of
from openclaw.plugins.calling import called

log = logging.getLogger("openclaw.gateway.http")

BODY_BYTES = 5_000_000
PRIVATE = frozenset({"authorization", "cookie", "x-openclaw-token", "proxy-authorization"})
"""What a client shows the gateway, and no plugin."""
OURS = frozenset({"content-length", "transfer-encoding", "connection", "content-type", "set-cookie", "server", "date"})


class PluginRoutes(BaseRoute):
    """Matches whatever a plugin that runs has asked for."""

    def __init__(self, find: Callable[[str], HttpRoute | None], gatekeeping: HttpAuth) -> None:
        self._find = find
        self._guard = HttpGuard(gatekeeping)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        found = self._find(scope["path"]) if scope["type"] == "http" else None
        return (Match.NONE, {}) if found is None else (Match.FULL, {"plugin_route": found})

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        route: HttpRoute = scope["plugin_route"]
        request = Request(scope, receive)
        try:
            if route.auth == "gateway":
                self._guard.check(request, route.scope)
            answer = await called(route.run, await _asked(request, route))
            headers = {name: value for name, value in answer.headers.items() if name.lower() not in OURS}
            response = Response(
                answer.body,
                answer.status,
                {**headers, "x-content-type-options": "nosniff", "content-security-policy": "sandbox"},
                answer.content_type,
            )
        except HttpProblem as problem:
            response = _refusal(problem)
        except OpenClawError as error:
            response = _refusal(problems.of_error(error))
        # A connection is where a bug ends: the client is told, the others never notice.
        except Exception:
            log.exception("%s failed", scope["path"])
            response = _refusal(HttpProblem(500, "a plugin failed to answer; the log has the details", problems.FAILED))
        await response(scope, receive, send)


async def _asked(request: Request, route: HttpRoute) -> HttpRequest:
    # A plugin that checks requests by itself sees what they carry; the gateway's own credentials stay here.
    hidden = PRIVATE if route.auth == "gateway" else PRIVATE - {"authorization"}
    return HttpRequest(
        method=request.method,
        path=request.url.path,
        query=request.url.query,
        headers={name: value for name, value in request.headers.items() if name not in hidden},
        body=await body_of(request, BODY_BYTES),
    )


def _refusal(problem: HttpProblem) -> Response:
    import msgspec

    return Response(
        msgspec.json.encode(problems.body(problem)),
        problem.status,
        {**problem.headers, "x-content-type-options": "nosniff"},
        "application/json; charset=utf-8",
    )
