"""Starts a plugin's operating system process, ends it with its children, and explains how it ended."""

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping

from msgspec import Struct

from openclaw.core.secret import Secret
from openclaw.plugins import wire
from openclaw.plugins.settings import PluginLimits

OUT_OF_MEMORY = 97
GOODBYE_SECONDS = 5.0
SLACK = 768 << 20
"""Address space beyond the memory a plugin may use: libraries, stacks and what the allocator only reserves."""


class PluginLaunch(Struct, frozen=True, kw_only=True):
    """How a plugin's process is started."""

    start: wire.HostStart
    limits: PluginLimits
    env: Mapping[str, Secret]
    """All of its environment."""
    cwd: str

    @property
    def memory(self) -> int:
        """Bytes the plugin may use."""
        return self.start.memory_bytes - SLACK


async def spawn(launch: PluginLaunch) -> Process:
    """Starts the process with a bare environment, and in its own session so that the whole group can be killed."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-B", "-m", "openclaw.plugins.host"),
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        env={name: value.reveal() for name, value in launch.env.items()},
        cwd=launch.cwd,
        start_new_session=os.name != "nt",
    )


def out_of_memory(launch: PluginLaunch) -> str:
    return f"it used more than its {launch.memory >> 20} MiB of memory"


async def exit_reason(child: Process, launch: PluginLaunch) -> str:
    """Why a process that closed its pipe ended."""
    try:
        async with asyncio.timeout(GOODBYE_SECONDS):
            code = await child.wait()
    except TimeoutError:
        return "it closed its pipe"
    if code == OUT_OF_MEMORY:
        return out_of_memory(launch)
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"its process crashed ({signal.Signals(-code).name})"
    return f"its process ended by itself (exit code {code})"


async def reap(child: Process) -> None:
    """Waits for a killed process. Its pipes are read to the end first: asyncio reports the exit only after that."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GOODBYE_SECONDS):
            await asyncio.gather(*(_drained(pipe) for pipe in (child.stdout, child.stderr) if pipe is not None))
            await child.wait()
    # A child of it may have escaped and still hold a pipe: close our end of all of them.
    child._transport.close()  # type: ignore[attr-defined]
    await asyncio.sleep(0)  # the transports close in the next round of the loop


async def _drained(pipe: asyncio.StreamReader) -> None:
    while await pipe.read(1 << 20):
        pass


def kill(child: Process) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.name != "nt":
            os.killpg(child.pid, signal.SIGKILL)
        elif child.returncode is None:
            child.kill()
