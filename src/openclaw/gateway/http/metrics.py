"""`/metrics`: the figures of a running gateway, in the text form monitoring programs read."""

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from openclaw.gateway.http.auth import Gatekeeping, Guard
from openclaw.gateway.http.problems import Problem
from openclaw.wire import scopes

Figures = Callable[[], dict[str, tuple[str, float]]]
"""Name to what it counts and how many."""


def route(figures: Figures, gatekeeping: Gatekeeping) -> Route:
    """Asks for the same credential as everything else: how busy someone is, is their own business."""
    guard = Guard(gatekeeping)

    async def answer(request: Request) -> Response:
        try:
            guard.check(request, scopes.READ)
        except Problem as problem:
            return PlainTextResponse(f"{problem}\n", status_code=problem.status)
        lines = []
        for name, (help_text, value) in figures().items():
            lines += [
                f"# HELP openclaw_{name} {help_text}",
                f"# TYPE openclaw_{name} gauge",
                f"openclaw_{name} {value:g}",
            ]
        return PlainTextResponse("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")

    return Route("/metrics", answer, methods=["GET"])
