"""`hooks.mappings[].transform`: code of the owner that decides what a webhook call becomes, in a child process."""

import asyncio
import hashlib
import logging
import sys
from pathlib import Path
from typing import Any

import msgspec

from openclaw.automation.settings import TransformSettings, WebhookMapping
from openclaw.automation.webhooks import AgentCall, WakeCall, WebhookCall, merge_transformed
from openclaw.core.errors import InvalidRequest, OpenClawError, Unavailable
from openclaw.plugins.hooks.runner import INHERITED, HandlerFailed, run_program
from openclaw.process.environment import Environment

log = logging.getLogger(__name__)

FOLDER = Path("hooks", "transforms")
WORKER = Path(__file__).parent / "transform_worker.py"
SECONDS = 10.0
MOST_BYTES = 1 << 20
SECRET_HEADERS = ("authorization", "x-openclaw-token", "cookie", "proxy-authorization")


class WebhookTransforms:
    """Runs the transforms of this installation; each only as it was accepted."""

    def __init__(self, state: Path, environment: Environment) -> None:
        self._folder = state / FOLDER
        self._env = {name: environment.environ[name] for name in INHERITED if name in environment.environ}

    async def __call__(self, mapping: WebhookMapping, call: WebhookCall) -> WakeCall | AgentCall | None:
        """What a call becomes; None when the transform says that it is nothing."""
        settings = mapping.transform
        assert settings is not None
        try:
            source = await asyncio.to_thread(self._source, settings)
            answer = await self._run(settings, source, call)
            return merge_transformed(mapping, call, answer)
        except (_NotUsable, HandlerFailed, InvalidRequest) as error:
            # The caller is somebody else: what is wrong is for the owner.
            log.warning("the transform %s of a webhook was not used: %s", settings.module, error)
            raise Unavailable("the transform of this hook failed: its owner finds the reason in the log") from error

    def _source(self, settings: TransformSettings) -> str:
        path = (self._folder / settings.module).resolve()
        if not path.is_relative_to(self._folder.resolve()):
            raise _NotUsable(f"it is not inside {self._folder}")
        try:
            data = path.read_bytes()
        except OSError as error:
            raise _NotUsable(f"{path} cannot be read: {error.strerror}") from error
        digest = hashlib.sha256(data).hexdigest()
        if len(data) > MOST_BYTES:
            raise _NotUsable(f"it is larger than {MOST_BYTES >> 20} MiB")
        if settings.sha256 != digest:
            changed = "it changed since you accepted it" if settings.sha256 else "you have not accepted it yet"
            raise _NotUsable(f"{changed}: look at {path}, then set sha256 beside module to {digest}")
        return data.decode(errors="replace")

    async def _run(self, settings: TransformSettings, source: str, call: WebhookCall) -> Any:
        shown = msgspec.to_builtins(call)
        shown["headers"] = {name: text for name, text in call.headers.items() if name.lower() not in SECRET_HEADERS}
        command = [sys.executable, "-I", "-B", str(WORKER), settings.module, settings.export]
        told = msgspec.json.encode({"source": source, "call": shown})
        answer = await run_program(command, told, cwd=self._folder, env=self._env, limit=SECONDS)
        try:
            return msgspec.json.decode(answer)
        except msgspec.DecodeError as error:
            raise HandlerFailed(f"its answer is not JSON ({error})") from None


class _NotUsable(OpenClawError):
    code = "UNAVAILABLE"
