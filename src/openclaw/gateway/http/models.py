"""`/v1/models`: the agents, as things one can ask."""

from collections.abc import Callable, Sequence
from typing import Any

from openclaw.gateway.http.endpoint import HttpCall
from openclaw.gateway.http.problems import HttpProblem
from openclaw.gateway.http.target import DEFAULT, PREFIX


class ModelsEndpoint:
    def __init__(self, agents: Callable[[], Sequence[str]]) -> None:
        self._agents = agents

    async def all(self, call: HttpCall) -> None:
        await call.answer({"object": "list", "data": [_shape(name) for name in self._names()]})

    async def one(self, call: HttpCall) -> None:
        wanted = call.request.path_params["id"]
        if wanted not in self._names():
            raise HttpProblem(
                404, f"there is no model {wanted[:100]!r}: /v1/models lists what there is", code="model_not_found"
            )
        await call.answer(_shape(wanted))

    def _names(self) -> list[str]:
        return [PREFIX, f"{PREFIX}/{DEFAULT}", *(f"{PREFIX}/{agent}" for agent in self._agents())]


def _shape(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "openclaw", "permission": []}
