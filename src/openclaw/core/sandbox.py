"""The sandbox seam: describes an isolated environment for tools, and how an engine starts programs in it.

A `SandboxSpec` is data; a `Sandbox` engine starts programs in it. The file tools run inside too, so that `read` sees
the same files as a command.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct, field

Access = Literal["none", "ro", "rw"]

WORKDIR = "/workspace"
AGENT_MOUNT = "/agent"
SANDBOX_HOME = "/home/agent"
TMP = "/tmp"  # noqa: S108 (the box has one of its own)
RUNTIME = "/opt/openclaw"
"""Where our file tools are mounted inside a sandbox, read-only."""


class Mount(Struct, frozen=True):
    """A host file or directory and its path inside the sandbox."""

    source: str
    target: str
    writable: bool = False


class SandboxLimits(Struct, frozen=True, kw_only=True):
    """Resource limits of a sandbox; 0 means no limit."""

    processes: int = 512
    memory: int = 2 << 30
    """In bytes, of the whole sandbox where the engine supports that, else of each process."""
    disk: int = 2 << 30
    """In bytes, of each file that is written; a sandbox that holds four times as much starts no command."""
    cpus: float = 0.0
    files: int = 4096
    """Open files per process."""


class SandboxSpec(Struct, frozen=True, kw_only=True):
    """One sandbox: its name, mounts, network and limits."""

    name: str
    root: str
    """The host directory for what persists: its home, /tmp and own workspace."""
    workdir: str = WORKDIR
    access: Access = "none"
    mounts: tuple[Mount, ...] = ()
    network: str = "none"
    """`none`, or the engine's name of a network."""
    env: Mapping[str, str] = field(default_factory=dict)
    limits: SandboxLimits = SandboxLimits()
    image: str = "openclaw-sandbox:bookworm-slim"
    user: str = ""
    setup: str = ""
    """A command run once in a new container."""


def to_sandbox_path(box: SandboxSpec, path: str) -> str | None:
    """The path inside the sandbox of a host path; None when it is not mounted."""
    return _translate(path, [(mount.source, mount.target) for mount in _mounts(box)])


def to_host_path(box: SandboxSpec, path: str) -> str | None:
    """The host path of a path inside the sandbox; links inside are not followed."""
    return _translate(path, [(mount.target, mount.source) for mount in _mounts(box)])


def _mounts(box: SandboxSpec) -> tuple[Mount, ...]:
    return (*box.mounts, Mount(f"{box.root}/home", SANDBOX_HOME, True), Mount(box.root + TMP, TMP, True))


def _translate(path: str, mounts: Sequence[tuple[str, str]]) -> str | None:
    """`path` with the longest of the `mounts` it is in replaced; of two equal ones the first counts."""
    inside = [(old, new) for old, new in mounts if path == old or path.startswith(f"{old}/")]
    old, new = max(inside, key=lambda mount: len(mount[0]), default=("", None))
    return None if new is None else new + path[len(old) :]


class SandboxLaunch(Struct, frozen=True, kw_only=True):
    """The host command that starts a program in a sandbox."""

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    after: tuple[str, ...] = ()
    """A command to run afterwards that kills what the program left running in the sandbox."""


class RunningSandbox(Struct, frozen=True, kw_only=True):
    """A sandbox that exists now."""

    name: str
    engine: str
    state: str
    """`running`, or the engine's own word."""
    image: str = ""


class Sandbox(Protocol):
    """A sandbox engine. What it cannot isolate it refuses, saying what to install; nothing ever runs outside."""

    @property
    def name(self) -> str: ...

    async def problem(self, box: SandboxSpec) -> str:
        """Why nothing can run in `box`, as a sentence that says what to do; empty when it can."""
        ...

    async def launch(
        self, box: SandboxSpec, argv: Sequence[str], *, cwd: str, env: Mapping[str, str], terminal: bool = False
    ) -> SandboxLaunch:
        """The command that starts `argv` in `box`, in its directory `cwd`. Raises when the sandbox is unavailable."""
        ...

    async def python(self, box: SandboxSpec) -> str:
        """The Python interpreter for the file tools inside."""
        ...

    async def standing(self, prefix: str) -> tuple[RunningSandbox, ...]:
        """Running sandboxes whose name starts with `prefix`."""
        ...

    async def discard(self, name: str) -> None:
        """Stops the sandbox called `name`. Its directory stays."""
        ...


class BoundSandbox(Struct, frozen=True):
    """A sandbox and the engine that runs it."""

    sandbox: Sandbox
    box: SandboxSpec


class RunsInSandbox:
    """A tool with calls that run in a sandbox, whose paths mean files inside it."""

    boxed: BoundSandbox | None
