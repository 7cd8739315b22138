"""The HTTP routes: every path, with the scope it needs and the handler."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from openclaw.core.channel import WebhookEntry
from openclaw.core.deferred import Deferred
from openclaw.core.secret import Secret
from openclaw.gateway.app import App
from openclaw.gateway.http import pages
from openclaw.gateway.http.endpoint import HttpAuth
from openclaw.gateway.http.metrics import MetricFamily, render_metrics
from openclaw.gateway.http.problems import HttpProblem
from openclaw.gateway.http.stream import RunFanout
from openclaw.gateway.http.tools import PluginRoutes
from openclaw.gateway.http.web import (
    BaseRoute,
    PlainTextResponse,
    Receive,
    Request,
    Route,
    Router,
    Scope,
    Send,
    WebResponse,
)
from openclaw.gateway.http.webhooks import ChannelWebhookRoutes, WebhookEndpoint
from openclaw.gateway.server import ServerFront
from openclaw.gateway.services import Services
from openclaw.protocol import scopes
from openclaw.protocol.auth import AuthLimiter
from openclaw.protocol.peer import client_ip, is_proxy_authenticated
from openclaw.protocol.rpc import MethodRegistry

if TYPE_CHECKING:
    from openclaw.gateway.http import api
else:
    api = Deferred("openclaw.gateway.http.api")

PATHS = (
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/embeddings",
    "/v1/models",
    "/v1/models/{id:path}",
    "/tools/invoke",
    "/sessions/{key:path}/history",
)
"""Those of `api.routes`."""


def gateway_routes(
    app: App,
    services: Services,
    fanout: RunFanout,
    front: ServerFront,
    limiter: AuthLimiter,
    secret: Callable[[], Secret | None],
    figures: Callable[[], Iterable[MetricFamily]],
    methods: MethodRegistry,
    channels: WebhookEntry,
) -> list[BaseRoute]:
    """Everything HTTP serves. The method that makes links to the web page is added to `methods`."""
    live = app.live

    def address(scope: Scope) -> str:
        return client_ip(front.peer(scope), live.config.gateway.trusted_proxies)

    def vouched(scope: Scope) -> bool | None:
        return is_proxy_authenticated(front.peer(scope))

    async def metrics(request: Request) -> WebResponse:
        """Asks for the same credential as everything else: how busy someone is, is their own business."""
        try:
            auth.check(request, scopes.READ)
        except HttpProblem as problem:
            return PlainTextResponse(f"{problem}\n", status_code=problem.status)
        return PlainTextResponse(render_metrics(figures()), media_type="text/plain; version=0.0.4")

    def surface() -> list[Route]:
        return api.api_routes(app, services, fanout, auth)

    auth = HttpAuth(secret=secret, limiter=limiter, clock=app.clock, address=address, vouched=vouched)
    found: list[BaseRoute] = [
        *lazy_routes(surface),
        Route(f"{live.config.hooks.path.rstrip('/')}/{{name:path}}", WebhookEndpoint(app, services, auth)),
        Route("/metrics", metrics, methods=["GET"]),
        PluginRoutes(app.plugins.route, auth),
        ChannelWebhookRoutes(channels),
    ]
    if live.config.gateway.control_ui.enabled:
        links, base = pages.LoginCodes(), pages.base_path(live.config.gateway.control_ui.base_path)
        methods.add(pages.link_method(links, base, app.clock))
        found += pages.routes(app, base, links, auth)
    return found


class LazyApp:
    """An application that is built at its first request."""

    def __init__(self, make: Callable[[], Sequence[BaseRoute]]) -> None:
        self._make = make
        self._made: Router | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._made is None:
            self._made = Router(self._make())
        await self._made(scope, receive, send)


def lazy_routes(make: Callable[[], Sequence[BaseRoute]]) -> list[Route]:
    """Routes for `PATHS`, built by `make` at the first request."""
    behind = LazyApp(make)
    return [Route(path, behind) for path in PATHS]
