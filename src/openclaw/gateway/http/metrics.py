"""`/metrics`: the route monitoring programs read."""

from collections.abc import Callable, Iterable

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from openclaw.gateway.http.endpoint import HttpAuth
from openclaw.gateway.http.problems import HttpProblem
from openclaw.gateway.metrics import MetricFamily, render_metrics
from openclaw.protocol import scopes


def route(figures: Callable[[], Iterable[MetricFamily]], auth: HttpAuth) -> Route:
    """Asks for the same credential as everything else: how busy someone is, is their own business."""

    async def answer(request: Request) -> Response:
        try:
            auth.check(request, scopes.READ)
        except HttpProblem as problem:
            return PlainTextResponse(f"{problem}\n", status_code=problem.status)
        return PlainTextResponse(render_metrics(figures()), media_type="text/plain; version=0.0.4")

    return Route("/metrics", answer, methods=["GET"])
