"""How the gateway is: the object that `health` and every connected client get."""

import os
from pathlib import Path
from typing import Any

from openclaw.agent.settings import agent_ids, default_agent
from openclaw.channels.status import ChannelReports
from openclaw.gateway.app import App
from openclaw.gateway.services import Services
from openclaw.plugins.registry import PluginRegistry


async def snapshot(app: App, services: Services, channels: ChannelReports, *, probe: bool = False) -> dict[str, Any]:
    """The health object, cheap enough to make at any time unless it is to `probe` the channels."""
    now, agents = services.sessions.now, app.live.config.agents
    rows = await app.index.list()
    found = await channels.document(probe=probe)
    recent = [{"key": row.session_key, "updatedAt": row.updated_at, "age": now - row.updated_at} for row in rows[:5]]
    return {
        "ok": True,
        "ts": now,
        "durationMs": services.sessions.now - now,
        "plugins": _plugins_health(app.plugins),
        "configReload": {"hotReloadStatus": "last-good" if app.live.current.used_last_good else "ok"},
        "channels": {
            name: {**found["channels"][name], "accounts": {each["accountId"]: each for each in accounts}}
            for name, accounts in found["channelAccounts"].items()
        },
        "channelOrder": found["channelOrder"],
        "channelLabels": found["channelLabels"],
        "heartbeatSeconds": 0,
        "defaultAgentId": default_agent(agents),
        "agents": [{"agentId": agent, "isDefault": place == 0} for place, agent in enumerate(agent_ids(agents))],
        "sessions": {"path": str(app.home.state / "agents"), "count": len(rows), "recent": recent},
        "running": services.runs.running,
    }


def resident() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def _plugins_health(plugins: PluginRegistry) -> dict[str, Any]:
    """The part of `health` about plugins."""
    statuses = plugins.statuses()
    return {
        "loaded": [status.id for status in statuses if status.state == "running"],
        "errors": [
            {"id": status.id, "error": status.why} for status in statuses if status.state in ("quarantined", "broken")
        ],
        "unavailable": [status.id for status in statuses if status.state == "held"],
    }
