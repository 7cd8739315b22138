"""Keeps the versions of workspace files: before a run can change them, and after it has."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from openclaw.gateway.bus import EventBus
from openclaw.workspace.history import By, FileHistory

FOLDER = "workspace-history"


class WorkspaceHistories:
    """The histories of all agents."""

    def __init__(self, state: Path, workspace_of: Callable[[str], Path], now: Callable[[], int]) -> None:
        self._state = state
        self._workspace_of = workspace_of
        self._now = now
        self._kept: dict[tuple[str, Path], FileHistory] = {}
        self._turn = asyncio.Lock()
        """Two who notice one change must not keep it twice."""

    def of(self, agent_id: str) -> FileHistory:
        workspace = self._workspace_of(agent_id)
        if (agent_id, workspace) not in self._kept:
            self._kept[agent_id, workspace] = FileHistory(self._state / FOLDER / agent_id, workspace)
        return self._kept[agent_id, workspace]

    async def notice(self, agent_id: str, by: By) -> FileHistory:
        """The history of an agent's files, up to date."""
        history = self.of(agent_id)
        if history.is_behind:
            async with self._turn:
                await asyncio.to_thread(history.notice, by, self._now())
        return history

    async def edited(self, agent_id: str, name: str, data: bytes) -> None:
        """Somebody has changed a file through the gateway."""
        async with self._turn:
            await asyncio.to_thread(self.of(agent_id).keep, name, data, "edit", self._now())

    async def follow(self, bus: EventBus) -> None:
        """Looks whenever a run begins or ends, until it is cancelled."""
        with bus.listening() as listener:
            async for notice in listener:
                if notice.event != "agent" or notice.payload.get("stream") != "lifecycle":
                    continue
                match notice.payload["data"]["phase"]:
                    case "start":
                        await self.notice(notice.payload["agentId"], "elsewhere")
                    case "end" | "error":
                        await self.notice(notice.payload["agentId"], "run")
                    case _:
                        pass
