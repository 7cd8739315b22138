"""What people ask about sandboxes: is this session in one, which are there, make this one new."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

from openclaw.config.schema import Config
from openclaw.core.keys import SessionKey
from openclaw.gateway.boxes import SandboxService
from openclaw.policy import confine, order
from openclaw.policy.settings import ToolsSettings
from openclaw.turns import agents as views

RECIPE = """\
FROM debian:bookworm-slim
RUN apt-get update \\
 && apt-get install -y --no-install-recommends bash ca-certificates curl git jq python3 python3-pip ripgrep \\
 && pip3 install --break-system-packages --no-cache-dir msgspec \\
 && rm -rf /var/lib/apt/lists/*
"""
"""The image of a container: a small system, and Python with msgspec for our file tools."""


async def explained(boxes: SandboxService, tools: ToolsSettings, key: SessionKey) -> dict[str, Any]:
    """Where a session works, as facts a person can follow back to a setting."""
    rules = boxes.rules(key.agent)
    boxed = confine.is_boxed(rules.mode, key)
    document: dict[str, Any] = {
        "session": str(key),
        "sandboxed": _why(rules.mode, key, boxed),
        "mode": f"{rules.mode} (agents.defaults.sandbox.mode)",
    }
    if not boxed:
        return document
    box = boxes.box(rules, key)
    engine = boxes.engine(rules)
    problem = await engine.problem(box)
    own = boxes.tool_settings(key.agent)
    asked = order.ToolRequest(agent=key.agent, boxed=True, read_only=rules.access == "ro")
    layers = [layer for layer in order.layers(tools, own, asked) if layer.name.startswith("sandbox")]
    return {
        **document,
        "engine": engine.name,
        "works": f"no: {problem}" if problem else "yes",
        "box": box.name,
        "scope": f"{rules.scope} (agents.defaults.sandbox.scope)",
        "files": box.root,
        "workspace": f"{rules.access} (agents.defaults.sandbox.workspaceAccess)",
        "sees": [f"{mount.target} = {mount.source} ({'rw' if mount.writable else 'ro'})" for mount in box.mounts],
        "network": _network(rules.network, engine.name),
        "limits": f"{box.limits.processes or 'any number of'} processes, {_memory(box.limits.memory, engine.name)}",
        "tools": [f"{layer.name}: only {', '.join(layer.allow)} ({layer.key})" for layer in layers if layer.allow],
        "never": [f"{', '.join(layer.deny)} ({layer.key})" for layer in layers if layer.deny],
    }


def _why(mode: str, key: SessionKey, boxed: bool) -> str:
    if mode == "off":
        return "no: the mode is off"
    if boxed:
        return "yes: the mode is all" if mode == "all" else "yes: it is not the main session"
    return "no: it is the main session and the mode is non-main"


def _network(network: str, engine: str) -> str:
    if network == "none":
        return "none (agents.defaults.sandbox.docker.network)"
    shared = ": this machine's, its loopback included" if engine in ("process", "auto") else ""
    return f"{network}{shared} (agents.defaults.sandbox.docker.network)"


def _memory(memory: int, engine: str) -> str:
    if not memory:
        return "no limit on memory"
    return f"{memory} bytes of memory" + (" each" if engine in ("process", "auto") else "")


async def listed(boxes: SandboxService, config: Config) -> list[dict[str, Any]]:
    """Every box with files or a container, the last used first."""
    found: dict[str, dict[str, Any]] = {}
    for agent_id in views.agent_ids(config.agents):
        rules = boxes.rules(agent_id)
        for place in await asyncio.to_thread(_directories, boxes.root(rules), rules.prefix):
            found[place.name] = {
                "name": place.name,
                "engine": "process",
                "state": "idle",
                "usedAt": round((place / "used").stat().st_mtime * 1000) if (place / "used").exists() else 0,
                "path": str(place),
            }
        for standing in await boxes.engine(rules).standing(rules.prefix):
            row = found.setdefault(standing.name, {"name": standing.name, "usedAt": 0, "path": ""})
            row.update(engine=standing.engine, state=standing.state)
    return sorted(found.values(), key=lambda row: -int(row["usedAt"]))


def _directories(root: Path, prefix: str) -> list[Path]:
    return sorted(place for place in root.glob(f"{prefix}*") if place.is_dir()) if root.is_dir() else []


async def renew(boxes: SandboxService, config: Config, row: dict[str, Any]) -> None:
    """Ends what runs in a box and empties its home and /tmp."""
    for agent_id in views.agent_ids(config.agents):
        await boxes.engine(boxes.rules(agent_id)).discard(row["name"])
    if row["path"]:
        for name in ("home", "tmp"):
            await asyncio.to_thread(shutil.rmtree, Path(row["path"], name), ignore_errors=True)
        await asyncio.to_thread(Path(row["path"], "made").unlink, True)
