"""The sandbox seam: a box in which tools run, and how a program is started inside one.

A box is a description; a sandbox knows how to start a program in it. The file tools run inside as well, so that
what `read` sees is what a command sees.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, runtime_checkable

from msgspec import Struct, field

Access = Literal["none", "ro", "rw"]

WORKDIR = "/workspace"
AGENT_MOUNT = "/agent"
BOX_HOME = "/home/agent"
TMP = "/tmp"  # noqa: S108 (the box has one of its own)
RUNTIME = "/opt/openclaw"
"""Where our own file tools stand inside a box, read-only."""


class Mount(Struct, frozen=True):
    """A directory or file of this machine as the box sees it."""

    source: str
    target: str
    writable: bool = False


class BoxLimits(Struct, frozen=True, kw_only=True):
    """What programs in a box may use; 0 sets no limit."""

    processes: int = 512
    memory: int = 0
    """Bytes: of the whole box where the engine can count that, else of each process."""
    cpus: float = 0.0
    files: int = 4096
    """Open files of one process."""


class SandboxSpec(Struct, frozen=True, kw_only=True):
    """One box: its name, what it sees and what it may use."""

    name: str
    root: str
    """The directory of this machine that holds what the box keeps: its home, its /tmp, its own workspace."""
    workdir: str = WORKDIR
    access: Access = "none"
    mounts: tuple[Mount, ...] = ()
    network: str = "none"
    """`none`, or what the engine calls the network it is given."""
    env: Mapping[str, str] = field(default_factory=dict)
    limits: BoxLimits = BoxLimits()
    image: str = "openclaw-sandbox:bookworm-slim"
    user: str = ""
    setup: str = ""
    """A command that is run once in a new container."""


def _all(box: SandboxSpec) -> tuple[Mount, ...]:
    return (*box.mounts, Mount(f"{box.root}/home", BOX_HOME, True), Mount(box.root + TMP, TMP, True))


def seen(box: SandboxSpec, path: str) -> str | None:
    """What a path of this machine is called inside; None when it cannot be seen there."""
    for mount in sorted(_all(box), key=lambda mount: -len(mount.source)):
        if path == mount.source or path.startswith(f"{mount.source}/"):
            return mount.target + path[len(mount.source) :]
    return None


def outside(box: SandboxSpec, path: str) -> str | None:
    """Where on this machine the file is that a path inside names; links inside are not followed."""
    for mount in sorted(_all(box), key=lambda mount: -len(mount.target)):
        if path == mount.target or path.startswith(f"{mount.target}/"):
            return mount.source + path[len(mount.target) :]
    return None


class SandboxLaunch(Struct, frozen=True, kw_only=True):
    """What to start on this machine so that a program starts in the box."""

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    after: tuple[str, ...] = ()
    """What to run once it has ended, so that nothing it started lives on in the box."""


class RunningSandbox(Struct, frozen=True, kw_only=True):
    """A box there is now."""

    name: str
    engine: str
    state: str
    """`running`, or what the engine says."""
    image: str = ""


class Sandbox(Protocol):
    """An engine for boxes. What cannot be boxed is refused with what to install or change; it never runs outside."""

    @property
    def name(self) -> str: ...

    async def problem(self, box: SandboxSpec) -> str:
        """Why nothing can run in `box`, as a sentence that says what to do; empty when it can."""
        ...

    async def launch(
        self, box: SandboxSpec, argv: Sequence[str], *, cwd: str, env: Mapping[str, str], terminal: bool = False
    ) -> SandboxLaunch:
        """How to start `argv` in `box`, in its directory `cwd`. Raises when the box cannot be had."""
        ...

    async def python(self, box: SandboxSpec) -> str:
        """The interpreter the file tools run with inside."""
        ...

    async def standing(self, prefix: str) -> tuple[RunningSandbox, ...]:
        """The boxes whose name starts with `prefix` that hold something running."""
        ...

    async def discard(self, name: str) -> None:
        """Ends what runs in the box called `name`. Its directory stays."""
        ...


class SandboxedRun(Struct, frozen=True):
    """A box and the engine that runs it."""

    sandbox: Sandbox
    box: SandboxSpec


@runtime_checkable
class WorksInBox(Protocol):
    """A tool whose paths are those of a box, for those of its calls that are contained."""

    @property
    def boxed(self) -> SandboxedRun | None: ...
