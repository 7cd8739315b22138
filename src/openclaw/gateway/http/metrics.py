"""`/metrics`: the figures of a running gateway, in the text form monitoring programs read."""

from collections.abc import Callable, Iterable

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from openclaw.gateway.figures import Family, text
from openclaw.gateway.http.auth import Gatekeeping, Guard
from openclaw.gateway.http.problems import Problem
from openclaw.wire import scopes


def route(figures: Callable[[], Iterable[Family]], gatekeeping: Gatekeeping) -> Route:
    """Asks for the same credential as everything else: how busy someone is, is their own business."""
    guard = Guard(gatekeeping)

    async def answer(request: Request) -> Response:
        try:
            guard.check(request, scopes.READ)
        except Problem as problem:
            return PlainTextResponse(f"{problem}\n", status_code=problem.status)
        return PlainTextResponse(text(figures()), media_type="text/plain; version=0.0.4")

    return Route("/metrics", answer, methods=["GET"])
