"""Everybody who starts child processes, each with a child that runs a given piece of Python.

    python -m tests.process.users NAME DIRECTORY FAULT

runs one until it is killed.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from openclaw.core.errors import OpenClawError
from openclaw.core.sandbox import BoundSandbox, SandboxLaunch, SandboxSpec
from openclaw.core.tool import ToolContext
from openclaw.memory.embedders.local import LocalEmbedder
from openclaw.plugins.hooks import runner
from openclaw.plugins.hooks.events import HookEvent, Payload
from openclaw.plugins.hooks.manifest import HookDirectory, HookManifest
from openclaw.process.child import ask_program
from openclaw.process.tasks import SystemClock
from openclaw.process.worker import Worker, WorkerSpec
from openclaw.tools.background import Background
from openclaw.tools.exec import ExecTool
from openclaw.tools.sandboxed import SandboxWorker
from openclaw.tools.sandboxed_worker import SandboxRequest
from tests.plugins.support import bench, tool_plugin

ENV = {"PATH": os.environ["PATH"], "HOME": "/tmp", "LANG": "C.UTF-8"}
ROOT = Path(__file__).parents[2]

# Each fault with `out`, where the child's answers go, and `record`, which keeps the id of a process.
FAULTS = {
    "prints garbage": "send(b'\\x00\\xff no message\\n' * 1000); time.sleep(3600)",
    "floods": "while True: send(b'x' * 65536)",
    "hangs": "time.sleep(3600)",
    "forks": (
        "record(subprocess.Popen(['sleep', '3600']).pid)\n"
        "record(subprocess.Popen(['sleep', '3600'], start_new_session=True).pid)\n"
        "time.sleep(3600)"
    ),
    "dies while writing": 'send(b\'{"id":1,"bo\'); os._exit(3)',
    "survives SIGTERM": "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)",
}
PRELUDE = """
import os, signal, subprocess, sys, time
def record(pid):
    with open({pids!r}, "a") as file: file.write(f"{{pid}}\\n")
def send(data):
    for out in {outs!r}:
        try: os.write(out, data)
        except OSError: pass
record(os.getpid())
"""
# Speaks the protocol of helpers: reads what it is to be, says that it is ready, and goes wrong at the first question.
HELPER = "import sys; sys.stdin.readline(); print('{\"ready\":true}', flush=True); sys.stdin.readline()\n"
SECONDS = 2.0


def code(directory: Path, fault: str, outs: Sequence[int] = (1,)) -> str:
    return PRELUDE.format(pids=str(directory / "pids"), outs=list(outs)) + FAULTS[fault]


def recorded(directory: Path) -> set[int]:
    try:
        return {int(line) for line in (directory / "pids").read_text().split()}
    except FileNotFoundError:
        return set()


async def command(directory: Path, fault: str) -> str:
    background = Background(SystemClock())
    tool = ExecTool(shell="/bin/bash", env=ENV, background=background)
    (directory / "fault.py").write_text(code(directory, fault))
    asked = {"command": f"{sys.executable} fault.py", "timeoutSeconds": SECONDS}
    try:
        answer = await tool.call(asked, ToolContext(call_id="1", workspace=directory))
    finally:
        await background.close()
    return answer.text


async def program(directory: Path, fault: str) -> str:
    said = await ask_program([sys.executable, "-c", code(directory, fault)], env=ENV, seconds=SECONDS)
    return said.why or f"code {said.code}"


async def hook(directory: Path, fault: str) -> str:
    handler = directory / "handler.py"
    handler.write_text(f"#!{sys.executable}\n{code(directory, fault)}")
    handler.chmod(0o755)
    found = HookDirectory(
        manifest=HookManifest(name="bad"), source="openclaw-managed", directory=str(directory), handler=str(handler)
    )
    event = HookEvent(type="command", action="new", timestamp="2026-01-01T00:00:00Z", context=Payload())
    return await refused(runner.run(found, event, {}, env=ENV, limit=SECONDS))


def _module(directory: Path, fault: str) -> Mapping[str, str]:
    (directory / "faulty_helper.py").write_text(HELPER + code(directory, fault))
    return {**ENV, "PYTHONPATH": f"{directory}:{ROOT}"}


async def helper(directory: Path, fault: str) -> str:
    role = WorkerSpec(name="the helper", module="faulty_helper")
    worker = Worker(role, dict, idle=0, environ=_module(directory, fault))
    try:
        return await refused(worker.ask({}, SECONDS))
    finally:
        await worker.close()


async def embedder(directory: Path, fault: str) -> str:
    os.environ["PYTHONPATH"] = _module(directory, fault)["PYTHONPATH"]
    role = WorkerSpec(name="the local model", module="faulty_helper")
    local = LocalEmbedder(directory / "model", "", timeout=SECONDS, worker=role)
    try:
        return await refused(local.embed(["hello"]))
    finally:
        await local.close()


class Unconfined:
    """An engine that starts one program as it is."""

    name = "unconfined"

    def __init__(self, argv: tuple[str, ...]) -> None:
        self._argv = argv

    async def python(self, box: SandboxSpec) -> str:
        return "python3"

    async def launch(self, box: SandboxSpec, argv: Sequence[str], **_: Any) -> SandboxLaunch:
        return SandboxLaunch(argv=self._argv, cwd=box.root, env=ENV)


async def sandbox(directory: Path, fault: str) -> str:
    engine = Unconfined((sys.executable, "-c", HELPER + code(directory, fault)))
    box = SandboxSpec(name="b", root=str(directory))
    worker = SandboxWorker(BoundSandbox(engine, box))  # type: ignore[arg-type]
    try:
        async with asyncio.timeout(SECONDS):  # file calls have no limit of their own: their run has one
            return await refused(worker.call(SandboxRequest(tool="read")))
    except TimeoutError:
        return "the run ended"
    finally:
        await worker.close()


async def plugin(directory: Path, fault: str) -> str:
    tool_plugin(directory / "p", "bad", code(directory, fault, range(3, 32)))
    limits = {"callSeconds": int(SECONDS), "silentSeconds": 2, "outputMb": 1}
    async with bench(directory, directory / "p", limits=limits) as here:
        answer = await here.call("bad")
    return answer.text if answer.is_error else ""


async def refused(work: Awaitable[object]) -> str:
    """What a person is told; empty when nothing was wrong."""
    try:
        await work
    except OpenClawError as error:
        return error.message
    return ""


USERS: Mapping[str, Callable[[Path, str], Awaitable[str]]] = {
    "a command": command,
    "a program": program,
    "a hook": hook,
    "a helper": helper,
    "the embedder": embedder,
    "a sandbox": sandbox,
    "a plugin": plugin,
}


def main() -> None:
    _, name, directory, fault = sys.argv
    globals()["SECONDS"] = 3600.0
    asyncio.run(USERS[name](Path(directory), fault))  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
