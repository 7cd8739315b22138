"""File tools in a sandbox: forwards calls to a worker process inside, where commands run too."""

import asyncio
import hashlib
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from openclaw.core.errors import InvalidRequest, StateError, Unavailable
from openclaw.core.messages import Image
from openclaw.core.sandbox import BoundSandbox, to_host_path, to_sandbox_path
from openclaw.core.tool import Effects, Output, Tool, ToolContext
from openclaw.process.child import start_subprocess
from openclaw.process.tasks import run_shielded
from openclaw.tools.base import ArgsTool
from openclaw.tools.image import DEFAULT_PROMPT, DescribeImages
from openclaw.tools.sandboxed_worker import LONGEST_LINE, START, SandboxAnswer, SandboxRequest

IDLE_SECONDS = 120.0
ENDING_SECONDS = 5.0


class SandboxWorker:
    """The process in one sandbox that runs file calls; started by the first call, stopped when idle."""

    def __init__(self, boxed: BoundSandbox) -> None:
        self._boxed = boxed
        self._process: asyncio.subprocess.Process | None = None
        self._waiting: dict[int, asyncio.Future[Output]] = {}
        self._last = 0
        self._starting = asyncio.Lock()
        self._reading: asyncio.Task[None] | None = None

    async def ask(self, ask: SandboxRequest) -> Output:
        process = await self._started()
        self._last += 1
        number = self._last
        answer: asyncio.Future[Output] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            await self._send(process, structs.replace(ask, id=number))
            return await answer
        except asyncio.CancelledError:
            # Not awaited: a worker that does not read its input would keep the run from ending.
            with suppress(ConnectionError, RuntimeError):
                assert process.stdin is not None
                process.stdin.write(msgspec.json.encode(SandboxRequest(id=number, cancel=True)) + b"\n")
            raise
        finally:
            self._waiting.pop(number, None)

    async def _send(self, process: asyncio.subprocess.Process, ask: SandboxRequest) -> None:
        assert process.stdin is not None
        try:
            process.stdin.write(msgspec.json.encode(ask) + b"\n")
            await process.stdin.drain()
        except UnicodeEncodeError as error:
            raise InvalidRequest(
                "An argument holds half a surrogate pair, which no file can: send it again."
            ) from error
        except (ConnectionError, RuntimeError) as error:
            raise StateError("The file tools of the sandbox have ended: try the call again.") from error

    async def _started(self) -> asyncio.subprocess.Process:
        async with self._starting:
            if self._process is not None and self._process.returncode is None and self._reading is not None:
                return self._process
            await self.close()
            sandbox, box = self._boxed.sandbox, self._boxed.box
            python = await sandbox.python(box)
            launch = await sandbox.launch(box, [python, "-I", "-c", START], cwd=box.workdir, env={})
            try:
                self._process = await start_subprocess(
                    *launch.argv,
                    cwd=launch.cwd,
                    env=dict(launch.env),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                    start_new_session=True,
                    limit=LONGEST_LINE,
                )
            except OSError as error:
                raise Unavailable(f"The sandbox could not be started: {error.strerror}.") from error
            self._reading = asyncio.create_task(self._read(self._process), name=f"box:{box.name}")
            return self._process

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        """Dispatches answers until the process ends or is idle for a while."""
        assert process.stdout is not None
        try:
            while True:
                try:
                    async with asyncio.timeout(IDLE_SECONDS):
                        line = await process.stdout.readline()
                except TimeoutError:
                    if self._waiting:
                        continue
                    self._process = None  # from here on a call starts a new one
                    return
                if not line:
                    return
                told = msgspec.json.decode(line, type=SandboxAnswer)
                answer = self._waiting.get(told.id)
                if answer is not None and not answer.done():
                    answer.set_result(told.output)
        except (ValueError, msgspec.DecodeError):
            return  # output from inside a sandbox is untrusted and may be malformed
        finally:
            await run_shielded(self._end(process))
            self._reading = None

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        if process.stdin is not None:
            process.stdin.close()
        said = b""
        try:
            async with asyncio.timeout(ENDING_SECONDS):
                if process.stderr is not None:
                    said = await process.stderr.read()
                await process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        why = said.decode("utf-8", "replace").strip().splitlines()[-1:] or ["it ended"]
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(
                    StateError(
                        f"The file tools of the sandbox do not work ({why[0][:300]}): see openclaw sandbox explain."
                    )
                )

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})
        self._process = self._reading = None


class SandboxWorkers:
    """One worker for each sandbox in use; whoever opens this closes it."""

    def __init__(self) -> None:
        self._open: dict[str, SandboxWorker] = {}

    def of(self, boxed: BoundSandbox) -> SandboxWorker:
        name = hashlib.sha256(msgspec.json.encode((boxed.sandbox.name, boxed.box), order="sorted")).hexdigest()
        if name not in self._open:
            self._open[name] = SandboxWorker(boxed)
        return self._open[name]

    async def close(self) -> None:
        for worker in self._open.values():
            await worker.close()
        self._open.clear()


class SandboxedTool(ArgsTool[dict[str, Any]]):
    """A file tool whose calls run in a sandbox."""

    args_type = dict[str, Any]

    def __init__(
        self, tool: Tool, boxed: BoundSandbox, workers: SandboxWorkers, *, confined: bool, patch_confined: bool
    ) -> None:
        self._tool = tool
        self.spec = tool.spec
        self.boxed = boxed
        self._workers = workers
        self._confined = confined
        self._patch_confined = patch_confined

    def effects(self, args: Mapping[str, Any]) -> Effects:
        return self._tool.effects(args)

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        if Effects.WRITES_FILES not in self.effects(args):
            return frozenset()
        # Which file a path means is known inside only, so writes in one sandbox take turns. The host files they
        # probably mean, if no link inside leads elsewhere, are named for the undo journal and the labels.
        box = self.boxed.box
        here = structs.replace(context, workspace=Path(to_host_path(box, box.workdir) or box.root))
        named = self._tool.resources(args, here)
        places = (path if to_sandbox_path(box, path) else to_host_path(box, path) for path in named)
        return frozenset({f"box:{box.name}", *(place for place in places if place is not None)})

    async def run(self, args: dict[str, Any], context: ToolContext) -> Output:
        return await self.inside(args, images=context.accepts_images)

    async def inside(self, args: dict[str, Any], *, images: bool) -> Output:
        box = self.boxed.box
        output = await self._workers.of(self.boxed).ask(
            SandboxRequest(
                id=0,
                tool=self.spec.name,
                args=args,
                workspace=box.workdir,
                images=images,
                confined=self._confined,
                patch_confined=self._patch_confined,
            )
        )
        return structs.replace(
            output,
            touched=tuple(to_host_path(box, path) or path for path in output.touched),
            listed=tuple(to_host_path(box, path) or path for path in output.listed),
        )


class SandboxedImage(SandboxedTool):
    """The `image` tool over files of a sandbox: loaded inside, described outside."""

    def __init__(
        self, tool: Tool, boxed: BoundSandbox, workers: SandboxWorkers, look: DescribeImages, *, confined: bool
    ) -> None:
        super().__init__(tool, boxed, workers, confined=confined, patch_confined=True)
        self._look = look

    async def run(self, args: dict[str, Any], context: ToolContext) -> Output:
        loaded = await self.inside(args, images=True)
        if context.accepts_images or loaded.is_error:
            return loaded
        prompt = str(args.get("prompt") or "").strip() or DEFAULT_PROMPT
        images = [block for block in loaded.content if isinstance(block, Image)]
        return Output.of(await self._look(context.agent_id, prompt, images), **(loaded.details or {}))
