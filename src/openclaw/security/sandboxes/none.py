"""The engine for machines without one: refuses every launch, because a sandboxed command must never run outside."""

from collections.abc import Mapping, Sequence

from openclaw.core.errors import Unavailable
from openclaw.core.sandbox import RunningSandbox, SandboxLaunch, SandboxSpec


class NoEngine:
    """Stands in for a missing engine, and says what to install."""

    name = "none"

    def __init__(self, why: str) -> None:
        self._why = why

    async def problem(self, box: SandboxSpec) -> str:
        return self._why

    async def launch(
        self, box: SandboxSpec, argv: Sequence[str], *, cwd: str, env: Mapping[str, str], terminal: bool = False
    ) -> SandboxLaunch:
        raise Unavailable(self._why)

    async def python(self, box: SandboxSpec) -> str:
        raise Unavailable(self._why)

    async def standing(self, prefix: str) -> tuple[RunningSandbox, ...]:
        return ()

    async def discard(self, name: str) -> None:
        return None
