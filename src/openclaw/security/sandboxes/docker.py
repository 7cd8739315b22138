"""Sandboxes as Docker or Podman containers, through the command line.

A container is created by the first command and keeps sleeping between commands; one created from other settings is
replaced. Ending the client does not end what runs inside, so every command carries a mark in its environment, and the
processes with that mark are killed afterwards.
"""

import asyncio
import hashlib
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

import openclaw
from openclaw.core.errors import Unavailable
from openclaw.core.sandbox import RUNTIME, SANDBOX_HOME, TMP, Mount, RunningSandbox, SandboxLaunch, SandboxSpec
from openclaw.process.child import ask_program
from openclaw.process.environment import find_executable
from openclaw.security.sandboxes.bubblewrap import stamp

ASK_SECONDS = 30.0
START_SECONDS = 120.0
LABEL = "openclaw.sandbox"
MARK = "OPENCLAW_CALL"

# Kills every process whose environment has the mark; `grep -z` because environments are separated by NUL.
_END = (
    "for p in /proc/[0-9]*; do "
    'if tr "\\0" "\\n" <"$p/environ" 2>/dev/null | grep -qx "$0"; '
    'then kill -9 "${p#/proc/}" 2>/dev/null; fi; done; true'
)


class _Said(Struct, frozen=True):
    code: int
    out: str
    err: str


class Docker:
    """The engines `docker` and `podman`, whose command lines agree on what is used here."""

    def __init__(self, environ: Mapping[str, str], program: str = "docker") -> None:
        self.name = program
        self._environ = {name: value for name, value in environ.items() if name in _PASSED}
        self._program = find_executable(program, environ.get("PATH", os.defpath))
        self._making = asyncio.Lock()
        self._made: dict[str, str] = {}

    async def problem(self, box: SandboxSpec) -> str:
        if self._program is None:
            return f"The sandbox needs {self.name}, which is not installed: install it, or install bubblewrap."
        engine = await self._ask("version", "--format", "{{.Server.Version}}")
        if engine.code != 0:
            return (
                f"{self.name} is installed but its engine does not answer ({engine.err[:200]}): start it "
                "(systemctl start docker), or set agents.defaults.sandbox.backend to process and install bubblewrap."
            )
        image = await self._ask("image", "inspect", "--format", "{{.Id}}", box.image)
        if image.code != 0:
            return f"The sandbox image {box.image} is not there: build it with openclaw sandbox build."
        return ""

    async def launch(
        self, box: SandboxSpec, argv: Sequence[str], *, cwd: str, env: Mapping[str, str], terminal: bool = False
    ) -> SandboxLaunch:
        await self._there(box)
        await asyncio.to_thread(stamp, box.root)
        assert self._program is not None
        mark = f"{MARK}={secrets.token_hex(8)}"
        variables = [part for name, value in env.items() for part in ("--env", f"{name}={value}")]
        flags = ["--interactive", *(["--tty"] if terminal else []), "--workdir", cwd, "--env", mark, *variables]
        return SandboxLaunch(
            argv=(self._program, "exec", *flags, box.name, *argv),
            cwd=box.root,
            env=self._environ,
            after=(self._program, "exec", box.name, "/bin/sh", "-c", _END, mark),
        )

    async def python(self, box: SandboxSpec) -> str:
        return "python3"

    async def standing(self, prefix: str) -> tuple[RunningSandbox, ...]:
        if self._program is None:
            return ()
        said = await self._ask(
            "ps", "--all", "--filter", f"label={LABEL}", "--format", "{{.Names}}\t{{.State}}\t{{.Image}}"
        )
        if said.code != 0:
            return ()
        rows = [line.split("\t") for line in said.out.splitlines() if line.count("\t") == 2]
        return tuple(
            RunningSandbox(name=name, engine=self.name, state=state, image=image)
            for name, state, image in rows
            if name.startswith(prefix)
        )

    async def discard(self, name: str) -> None:
        self._made.pop(name, None)
        if self._program is not None:
            await self._ask("rm", "--force", name)

    async def _there(self, box: SandboxSpec) -> None:
        """Ensures that the container runs and was created from these settings."""
        digest = hashlib.sha256(msgspec.json.encode(box, order="sorted")).hexdigest()[:16]
        async with self._making:
            if self._made.get(box.name) == digest and await self._runs(box.name):
                return
            if why := await self.problem(box):
                raise Unavailable(why)
            seen = await self._ask("inspect", "--format", f'{{{{index .Config.Labels "{LABEL}"}}}}', box.name)
            if seen.code != 0 or seen.out.strip() != digest:
                await self._ask("rm", "--force", box.name)
                for name in ("", "home", "tmp", "workspace"):
                    Path(box.root, name).mkdir(parents=True, exist_ok=True, mode=0o700)
                await self._must("run", *creation(box, digest), box.image, "sleep", "infinity")
                if box.setup:
                    await self._must("exec", box.name, "/bin/sh", "-lc", box.setup)
            elif not await self._runs(box.name):
                await self._must("start", box.name)
            self._made[box.name] = digest

    async def _runs(self, name: str) -> bool:
        said = await self._ask("inspect", "--format", "{{.State.Running}}", name)
        return said.code == 0 and said.out.strip() == "true"

    async def _must(self, *words: str) -> str:
        said = await self._ask(*words, seconds=START_SECONDS)
        if said.code != 0:
            raise Unavailable(
                f"{self.name} {words[0]} failed, so nothing is run: {said.err[:300] or 'no reason given'}"
            )
        return said.out

    async def _ask(self, *words: str, seconds: float = ASK_SECONDS) -> _Said:
        assert self._program is not None
        # An engine without a daemon leaves a monitor behind for each container.
        said = await ask_program((self._program, *words), env=self._environ, seconds=seconds, leave=True)
        if said.code is None:
            return _Said(124, "", f"no answer for {seconds:g} seconds")
        return _Said(said.code, said.out.decode("utf-8", "replace"), said.err.decode("utf-8", "replace").strip())


_PASSED = frozenset(
    ("PATH", "HOME", "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "XDG_RUNTIME_DIR", "CONTAINER_HOST")
)
"""Variables of ours that the engine's client needs; none of them reaches the container."""


def creation(box: SandboxSpec, digest: str) -> list[str]:
    """The arguments of `run` for a container as isolated as its spec says."""
    limits = box.limits
    words = ["--detach", "--name", box.name, "--label", f"{LABEL}={digest}", "--hostname", "sandbox", "--init"]
    words += ["--network", box.network, "--read-only", "--tmpfs", "/run", "--tmpfs", f"/var{TMP}"]
    words += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--user"]
    words.append(box.user or f"{os.getuid()}:{os.getgid()}")  # ours, so that files created inside belong to us
    words += ["--workdir", box.workdir, "--entrypoint", ""]
    if limits.processes:
        words += ["--pids-limit", str(limits.processes)]
    if limits.memory:
        words += ["--memory", str(limits.memory)]
    if limits.cpus:
        words += ["--cpus", f"{limits.cpus:g}"]
    if limits.files:
        words += ["--ulimit", f"nofile={limits.files}:{limits.files}"]
    if limits.disk:
        words += ["--ulimit", f"fsize={limits.disk}:{limits.disk}"]
    for name, value in {"HOME": SANDBOX_HOME, "LANG": "C.UTF-8", **box.env}.items():
        words += ["--env", f"{name}={value}"]
    for mount in (*_kept(box), *box.mounts):
        mode = "" if mount.writable else ",readonly"
        words += ["--mount", f"type=bind,source={mount.source},target={mount.target}{mode}"]
    return words


def _kept(box: SandboxSpec) -> tuple[Mount, ...]:
    """The persistent directories, and our file tools. Compiled packages (msgspec) must come with the image."""
    import pathspec

    here = str(Path(openclaw.__file__).resolve().parent)
    return (
        Mount(str(Path(pathspec.__file__).resolve().parent), f"{RUNTIME}/lib/pathspec"),
        Mount(f"{box.root}/home", SANDBOX_HOME, True),
        Mount(box.root + TMP, TMP, True),
        Mount(here, f"{RUNTIME}/lib/openclaw"),
    )
