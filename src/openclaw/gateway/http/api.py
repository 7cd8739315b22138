"""The routes for other programs: the OpenAI-compatible interface, calls of tools, histories."""

from collections.abc import Awaitable, Callable
from functools import partial

from openclaw.config.settings import HttpEndpointsSettings
from openclaw.gateway.app import App
from openclaw.gateway.http import completions, embeddings, problems, responses, tools
from openclaw.gateway.http.embeddings import Embed
from openclaw.gateway.http.endpoint import EndpointRules, HttpAuth, HttpCall, HttpEndpoint
from openclaw.gateway.http.requests import HttpBackend
from openclaw.gateway.http.stream import RunFanout
from openclaw.gateway.http.web import Route
from openclaw.gateway.services import Services
from openclaw.protocol import scopes


def api_routes(app: App, services: Services, fanout: RunFanout, auth: HttpAuth) -> list[Route]:
    """The routes of a gateway."""
    backend = HttpBackend(app, services.toolset, services.runs, services.inbox, fanout)
    return routes(backend, app.memories.embed, app.live.config.gateway.http.endpoints, auth)


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
            tools.ToolInvocation(backend),
        ),
        route(
            "/sessions/{key:path}/history",
            EndpointRules(method="GET", scope=scopes.SESSIONS_READ),
            partial(embeddings.history, backend),
        ),
    ]
