"""RPC methods `agents.files.*`: list, get and set workspace files, and their earlier versions."""

import asyncio
import hashlib
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from openclaw.agent.settings import AgentsSettings, agent_ids
from openclaw.core.errors import Conflict, InvalidRequest, NotFound
from openclaw.core.keys import normalise_agent
from openclaw.core.settings import Live
from openclaw.protocol.params import NonEmpty, Params
from openclaw.protocol.rpc import Caller, RpcMethod
from openclaw.protocol.scopes import ADMIN, READ
from openclaw.storage import atomic
from openclaw.workspace.files import BOOTSTRAP_FILES, load
from openclaw.workspace.history import WorkspaceHistories
from openclaw.workspace.pins import BootstrapPins
from openclaw.workspace.seed import Workspaces


class AgentsFilesListParams(Params, frozen=True, kw_only=True):
    """Params of `agents.files.list`."""

    agent_id: NonEmpty


class AgentsFilesGetParams(AgentsFilesListParams, frozen=True, kw_only=True):
    """Params of `agents.files.get`."""

    name: NonEmpty


class AgentsFilesSetParams(AgentsFilesGetParams, frozen=True, kw_only=True):
    """Params of `agents.files.set`."""

    content: str
    expected_hash: Annotated[str, Meta(min_length=64, max_length=64, pattern=r"^[a-fA-F0-9]{64}$")] | None = None


class AgentsFilesHistoryParams(AgentsFilesGetParams, frozen=True, kw_only=True):
    """Params of `agents.files.history`, an extension of ours."""


class AgentsFilesVersionParams(AgentsFilesGetParams, frozen=True, kw_only=True):
    """Params of `agents.files.version`, an extension of ours."""

    version: NonEmpty


FILE_BYTES = 1024 * 1024


def files_methods(
    workspaces: Workspaces, agents_settings: Live[AgentsSettings], histories: WorkspaceHistories, pins: BootstrapPins
) -> list[RpcMethod]:
    def place_of(agent_id: str) -> tuple[str, Path]:
        agent = normalise_agent(agent_id)
        if agent not in agent_ids(agents_settings.current):
            raise NotFound(f"there is no agent {agent_id!r}: agents.list shows which there are")
        return agent, workspaces.of(agent)

    async def listed(params: AgentsFilesListParams, caller: Caller) -> Any:
        _, place = place_of(params.agent_id)
        found = [_file(place, name) for name in BOOTSTRAP_FILES]
        return {"agentId": params.agent_id, "workspace": str(place), "files": found}

    async def get(params: AgentsFilesGetParams, caller: Caller) -> Any:
        _, place = place_of(params.agent_id)
        file = _file(place, _known(params.name), content=True)
        return {"agentId": params.agent_id, "workspace": str(place), "file": file}

    async def put(params: AgentsFilesSetParams, caller: Caller) -> Any:
        agent, place = place_of(params.agent_id)
        path = place / _known(params.name)
        data = params.content.encode()
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise InvalidRequest(f"{path} is not a plain file: change it on the machine itself")
        if len(data) > FILE_BYTES:
            raise InvalidRequest("the file is too large: keep it under 1 MiB")
        before = _file(place, params.name)
        if params.expected_hash and before.get("hash") != params.expected_hash:
            raise Conflict(f"{params.name} has changed since you opened it: reload it first")
        await histories.notice(agent, "elsewhere")
        atomic.replace_file(path, data, mode=0o644)
        await histories.edited(agent, params.name, data)
        await asyncio.to_thread(pins.accept, place, load(place, names=(params.name,)))
        file = _file(place, params.name, content=True)
        return {"ok": True, "agentId": params.agent_id, "workspace": str(place), "file": file}

    async def versions(params: AgentsFilesHistoryParams, caller: Caller) -> Any:
        agent, _ = place_of(params.agent_id)
        history = await histories.notice(agent, "elsewhere")
        found = await asyncio.to_thread(history.versions, _known(params.name))
        return {"agentId": params.agent_id, "name": params.name, "versions": msgspec.to_builtins(found)}

    async def version(params: AgentsFilesVersionParams, caller: Caller) -> Any:
        agent, _ = place_of(params.agent_id)
        data = await asyncio.to_thread(histories.of(agent).read, _known(params.name), params.version)
        return {"agentId": params.agent_id, "name": params.name, "content": data.decode(errors="replace")}

    return [
        RpcMethod("agents.files.list", AgentsFilesListParams, listed, READ),
        RpcMethod("agents.files.get", AgentsFilesGetParams, get, READ),
        RpcMethod("agents.files.set", AgentsFilesSetParams, put, ADMIN),
        RpcMethod("agents.files.history", AgentsFilesHistoryParams, versions, READ),
        RpcMethod("agents.files.version", AgentsFilesVersionParams, version, READ),
    ]


def _known(name: str) -> str:
    if name not in BOOTSTRAP_FILES:
        raise InvalidRequest(f"{name!r} is not a workspace file: use one of {', '.join(BOOTSTRAP_FILES)}")
    return name


def _file(place: Path, name: str, *, content: bool = False) -> dict[str, Any]:
    path = place / name
    shown: dict[str, Any] = {"name": name, "path": str(path), "missing": True}
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > FILE_BYTES:
            return shown
        data = path.read_bytes()
    except OSError:
        return shown
    shown |= {
        "missing": False,
        "size": len(data),
        "updatedAtMs": round(path.stat().st_mtime * 1000),
        "hash": hashlib.sha256(data).hexdigest(),
    }
    return {**shown, **({"content": data.decode(errors="replace")} if content else {})}
