"""File tools in a sandbox: forwards calls to a worker process inside, where commands run too."""

import hashlib
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from openclaw.core.errors import InvalidRequest, Unavailable
from openclaw.core.messages import Image
from openclaw.core.sandbox import BoundSandbox, RunsInSandbox, to_host_path, to_sandbox_path
from openclaw.core.tool import Effects, Output, Tool, ToolContext
from openclaw.process.child import start_subprocess
from openclaw.process.worker import PIPES, Worker, WorkerSpec
from openclaw.tools.base import ArgsTool
from openclaw.tools.image import DEFAULT_PROMPT, DescribeImages
from openclaw.tools.sandboxed_worker import START, SandboxRequest

IDLE_SECONDS = 120.0


class SandboxWorker(Worker):
    """The process in one sandbox that runs file calls."""

    def __init__(self, boxed: BoundSandbox) -> None:
        super().__init__(WorkerSpec(name="the file worker of the sandbox"), dict, idle=IDLE_SECONDS, environ={})
        self._boxed = boxed

    async def call(self, request: SandboxRequest) -> Output:
        try:
            return msgspec.convert(await self.ask(request, None), Output)
        except UnicodeEncodeError as error:
            raise InvalidRequest(
                "An argument holds half a surrogate pair, which no file can: send it again."
            ) from error
        except msgspec.ValidationError as error:  # what comes from inside a sandbox is untrusted
            raise Unavailable(self._named("it sent something that cannot be read")) from error

    async def _launch(self) -> Process:
        sandbox, box = self._boxed.sandbox, self._boxed.box
        python = await sandbox.python(box)
        launch = await sandbox.launch(box, [python, "-I", "-c", START], cwd=box.workdir, env={})
        try:
            return await start_subprocess(*launch.argv, **PIPES, stderr=PIPE, cwd=launch.cwd, env=dict(launch.env))
        except OSError as error:
            raise Unavailable(f"The sandbox could not be started: {error.strerror}.") from error

    def _named(self, reason: str) -> str:
        return f"The file tools of the sandbox do not work ({reason[:300]}): see openclaw sandbox explain."


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


class SandboxedTool(ArgsTool[dict[str, Any]], RunsInSandbox):
    """A file tool whose calls run in a sandbox."""

    boxed: BoundSandbox

    errors_quote = True

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
        output = await self._workers.of(self.boxed).call(
            SandboxRequest(
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
            # What comes from inside cannot say of itself that it needs no label or no markers.
            own=False,
            enclosed=False,
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
