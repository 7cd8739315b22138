"""The HTTP routes: every path, with the scope it needs and the handler."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial

from openclaw.config.settings import HttpEndpointsSettings
from openclaw.core.channel import WebhookEntry
from openclaw.core.secret import Secret
from openclaw.gateway.app import App
from openclaw.gateway.http import completions, embeddings, pages, problems, responses, tools
from openclaw.gateway.http.embeddings import Embed
from openclaw.gateway.http.endpoint import EndpointRules, HttpAuth, HttpCall, HttpEndpoint
from openclaw.gateway.http.metrics import MetricFamily, render_metrics
from openclaw.gateway.http.problems import HttpProblem
from openclaw.gateway.http.requests import HttpBackend
from openclaw.gateway.http.stream import RunFanout
from openclaw.gateway.http.tools import PluginRoutes, ToolInvocation
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
        backend = HttpBackend(app, services.toolset, services.runs, services.inbox, fanout)
        return routes(backend, app.memories.embed, live.config.gateway.http.endpoints, auth)

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


def routes(backend: HttpBackend, embed: Embed | None, enabled: HttpEndpointsSettings, auth: HttpAuth) -> list[Route]:
    """The routes for the web server. They answer every method themselves, so that refusals have one shape."""
    chat_off = "" if enabled.chat_completions.enabled else completions.OFF
    responses_off = "" if enabled.responses.enabled else responses.OFF
    models_rules = EndpointRules(method="GET", scope=scopes.READ, off=chat_off if responses_off else "")
    models = partial(embeddings.models, backend)

    def route(path: str, rules: EndpointRules, handle: Callable[[HttpCall], Awaitable[None]]) -> Route:
        return Route(path, HttpEndpoint(auth, rules, handle))

    def post(limit: int, off: str) -> EndpointRules:
        return EndpointRules(method="POST", scope=scopes.WRITE, limit=limit, off=off)

    return [
        route(
            "/v1/chat/completions",
            post(completions.BODY_BYTES, chat_off),
            partial(completions.chat_completions, backend),
        ),
        route("/v1/responses", post(responses.BODY_BYTES, responses_off), partial(responses.responses, backend)),
        route("/v1/embeddings", post(embeddings.BODY_BYTES, chat_off), partial(embeddings.embeddings, embed)),
        route("/v1/models", models_rules, models),
        route("/v1/models/{id:path}", models_rules, models),
        route(
            "/tools/invoke",
            EndpointRules(method="POST", scope=scopes.WRITE, limit=tools.BODY_BYTES, shape=problems.short_body),
            ToolInvocation(backend),
        ),
        route(
            "/sessions/{key:path}/history",
            EndpointRules(method="GET", scope=scopes.SESSIONS_READ),
            partial(embeddings.history, backend),
        ),
    ]
