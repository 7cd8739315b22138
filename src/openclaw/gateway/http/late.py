"""Addresses that most gateways are never asked for: what answers them is loaded with the first request."""

from collections.abc import Callable, Sequence

from starlette.routing import BaseRoute, Route, Router
from starlette.types import Receive, Scope, Send

PATHS = (
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/embeddings",
    "/v1/models",
    "/v1/models/{id:path}",
    "/tools/invoke",
    "/sessions/{key:path}/history",
)
"""Those of `surface.routes`."""


class Late:
    """An application that is made when it is first asked."""

    def __init__(self, make: Callable[[], Sequence[BaseRoute]]) -> None:
        self._make = make
        self._made: Router | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._made is None:
            self._made = Router(self._make())
        await self._made(scope, receive, send)


def routes(make: Callable[[], Sequence[BaseRoute]], paths: Sequence[str] = PATHS) -> list[Route]:
    """`paths`, answered by the routes that `make` gives."""
    behind = Late(make)
    return [Route(path, behind) for path in paths]
