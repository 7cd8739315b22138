"""Selects the sandbox engine: the configured one, or the first that works."""

from collections.abc import Mapping, Sequence

from openclaw.core.errors import Unavailable
from openclaw.core.sandbox import RunningSandbox, Sandbox, SandboxLaunch, SandboxSpec
from openclaw.security.sandboxes.bubblewrap import INSTALL, Bubblewrap
from openclaw.security.sandboxes.docker import Docker


def build(backend: str, environ: Mapping[str, str]) -> Sandbox:
    """The engine called `backend`."""
    match backend:
        case "process" | "bubblewrap" | "bwrap":
            return Bubblewrap(environ)
        case "docker" | "podman":
            return Docker(environ, backend)
    return AutoEngine([Bubblewrap(environ), Docker(environ), Docker(environ, "podman")])


class AutoEngine:
    """Tries engines in order, once; when none works it says what to install."""

    def __init__(self, engines: Sequence[Sandbox]) -> None:
        self._engines = engines
        self._chosen: Sandbox | None = None

    @property
    def name(self) -> str:
        return self._chosen.name if self._chosen else "auto"

    async def problem(self, box: SandboxSpec) -> str:
        if self._chosen is not None:
            return await self._chosen.problem(box)
        whys = []
        for engine in self._engines:
            why = await engine.problem(box)
            if not why:
                self._chosen = engine
                return ""
            whys.append(f"{engine.name}: {why}")
        return f"No sandbox works here, so nothing is run. To mend it, {INSTALL}. ({' '.join(whys)})"

    async def launch(
        self, box: SandboxSpec, argv: Sequence[str], *, cwd: str, env: Mapping[str, str], terminal: bool = False
    ) -> SandboxLaunch:
        return await (await self._engine(box)).launch(box, argv, cwd=cwd, env=env, terminal=terminal)

    async def python(self, box: SandboxSpec) -> str:
        return await (await self._engine(box)).python(box)

    async def _engine(self, box: SandboxSpec) -> Sandbox:
        if self._chosen is None and (why := await self.problem(box)):
            raise Unavailable(why)
        assert self._chosen is not None
        return self._chosen

    async def standing(self, prefix: str) -> tuple[RunningSandbox, ...]:
        return tuple([each for engine in self._engines for each in await engine.standing(prefix)])

    async def discard(self, name: str) -> None:
        for engine in self._engines:
            await engine.discard(name)
