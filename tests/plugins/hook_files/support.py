"""Hooks on disk, and the settings of a home that wants them."""

import json
from pathlib import Path
from typing import Any

from openclaw.plugins.hooks.events import BootstrapContext, BootstrapFile, CommandContext, HookEvent
from openclaw.plugins.hooks.find import HookRoot, find_hooks
from openclaw.plugins.hooks.manifest import FoundHooks, Source
from openclaw.testing import TemporaryHome

PYTHON = "async def handler(event):\n    pass\n"


def put(
    root: Path,
    name: str,
    events: str = "command:new",
    *,
    code: str | None = PYTHON,
    program: str | None = None,
    more: str = "",
) -> Path:
    """A hook below `root`: `code` is its handler.py, `program` a shell script; `more` are lines below `openclaw`."""
    directory = root / name
    directory.mkdir(parents=True)
    text = f"---\nname: {name}\ndescription: does {name}\nmetadata:\n  openclaw:\n    events: [{events}]\n{more}---\n"
    (directory / "HOOK.md").write_text(text)
    if program is not None:
        path = directory / "handler"
        path.write_text(f"#!/bin/sh\n{program}\n")
        path.chmod(0o755)
    elif code is not None:
        (directory / "handler.py").write_text(code)
    return directory


def look(*places: tuple[Path, Source]) -> FoundHooks:
    return find_hooks([HookRoot(path=path, source=source) for path, source in places])


def command_event(action: str = "new", agent: str = "main", **context: Any) -> HookEvent:
    told = CommandContext(**{"agent_id": agent, "workspace_dir": "/nowhere", **context})
    return HookEvent(
        type="command",
        action=action,
        timestamp="2026-01-02T03:04:05.000Z",
        context=told,
        session_key=f"agent:{agent}:main",
    )


def bootstrap_event(*files: BootstrapFile) -> HookEvent:
    told = BootstrapContext(agent_id="main", workspace_dir="/nowhere", bootstrap_files=files)
    return HookEvent(
        type="agent",
        action="bootstrap",
        timestamp="2026-01-02T03:04:05.000Z",
        context=told,
        session_key="agent:main:main",
    )


def want(home: TemporaryHome, base: dict[str, Any] | None = None, **internal: Any) -> None:
    """Settings with `hooks.internal` as given, beside `base` or a scripted model."""
    if base is None:
        home.use_model(hooks={"internal": internal})
    else:
        home.configure({**base, "hooks": {"internal": internal}})


def config(home: TemporaryHome) -> Any:
    return json.loads(home.config_path.read_text())
