"""RPC methods about the gateway itself: `health`, `status`, `system-presence`, `logs.tail`, `doctor.*`, …"""

import asyncio
import os
import platform
import socket
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from openclaw.agent.settings import AgentsSettings, agent_ids, default_agent, resolve_agent
from openclaw.channels.status import ChannelReports
from openclaw.config.summary import describe_home
from openclaw.core.settings import Live
from openclaw.gateway.app import App
from openclaw.gateway.connections import Connections, Presence
from openclaw.gateway.logs import LogFiles, LogTail, newest, tail
from openclaw.gateway.rpc.health import resident, snapshot
from openclaw.gateway.services import Services
from openclaw.process.environment import Environment
from openclaw.protocol.params import NonEmpty, NonNegative, NoParams, Params
from openclaw.protocol.rpc import Caller, RpcMethod
from openclaw.protocol.scopes import ADMIN, READ
from openclaw.sessions.params import (
    SessionsListParams,
    SessionsMessagesSubscribeParams,
    SessionsMessagesUnsubscribeParams,
)
from openclaw.sessions.rpc import list_sessions
from openclaw.sessions.service import SessionService
from openclaw.version import __version__

_NOTHING_ASKED = SessionsListParams()


def subscriptions_methods(app: App, sessions: SessionService, connections: Connections) -> list[RpcMethod]:
    async def subscribe(params: SessionsListParams, caller: Caller) -> Any:
        if connection := connections.connection(caller.conn_id):
            connection.follows_sessions = True
        if msgspec.structs.asdict(params) == msgspec.structs.asdict(_NOTHING_ASKED):
            return {"subscribed": True}
        return {"subscribed": True, "list": await list_sessions(sessions, app.models, app.home.state, params)}

    async def unsubscribe(params: SessionsListParams, caller: Caller) -> Any:
        if connection := connections.connection(caller.conn_id):
            connection.follows_sessions = False
        return {"subscribed": False}

    async def follow(params: SessionsMessagesSubscribeParams, caller: Caller) -> Any:
        key = str(sessions.key(params.key, params.agent_id))
        if connection := connections.connection(caller.conn_id):
            connection.followed.add(key)
        return {"subscribed": True, "key": key}

    async def unfollow(params: SessionsMessagesUnsubscribeParams, caller: Caller) -> Any:
        key = str(sessions.key(params.key, params.agent_id))
        if connection := connections.connection(caller.conn_id):
            connection.followed.discard(key)
        return {"subscribed": False, "key": key}

    return [
        RpcMethod("sessions.subscribe", SessionsListParams, subscribe, READ),
        RpcMethod("sessions.unsubscribe", SessionsListParams, unsubscribe, READ),
        RpcMethod("sessions.messages.subscribe", SessionsMessagesSubscribeParams, follow, READ),
        RpcMethod("sessions.messages.unsubscribe", SessionsMessagesUnsubscribeParams, unfollow, READ),
    ]


class AgentsCapabilitiesParams(Params, frozen=True, kw_only=True):
    """Params of `agents.capabilities`: one agent, or all."""

    agent_id: NonEmpty | None = None


def capability_methods(
    agents: Live[AgentsSettings], describe: Callable[[str], Awaitable[dict[str, Any]]]
) -> list[RpcMethod]:
    async def list_capabilities(params: AgentsCapabilitiesParams, caller: Caller) -> Any:
        known = agents.current
        wanted = [resolve_agent(known, params.agent_id).id] if params.agent_id else agent_ids(known)
        return {"agents": [await describe(agent_id) for agent_id in wanted]}

    return [RpcMethod("agents.capabilities", AgentsCapabilitiesParams, list_capabilities, READ)]


class LogsTailParams(Params, frozen=True, kw_only=True):
    """Params of `logs.tail`."""

    cursor: NonNegative | None = None
    limit: Annotated[int, Meta(ge=1, le=5000)] | None = None
    max_bytes: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None


class DoctorRepairParams(Params, frozen=True, kw_only=True):
    """Params of `doctor.repair`: a finding of `doctor.check`, and the plan a person agreed to."""

    check_id: NonEmpty
    plan: NonEmpty


class SecurityAuditParams(Params, frozen=True, kw_only=True):
    """Params of `security.audit`, an extension of ours."""

    deep: bool | None = None


class HealthParams(Params, frozen=True, kw_only=True):
    """Params of `health`."""

    probe: bool | None = None


class StatusParams(Params, frozen=True, kw_only=True):
    """Params of `status`."""

    include_channel_summary: bool | None = None
    include_cli_projection: bool | None = None


TAIL_BYTES = 250_000
TAIL_LINES = 500


def system_methods(
    app: App, services: Services, channels: ChannelReports, presence: Presence, started_at: int
) -> list[RpcMethod]:
    sessions, state_dir, agents_settings = services.sessions, app.home.state, app.live.agents
    logs = LogFiles.of(state_dir, app.live.config.logging.file)

    async def health(params: HealthParams, caller: Caller) -> Any:
        return await snapshot(app, services, channels, probe=bool(params.probe))

    async def status(params: StatusParams, caller: Caller) -> Any:
        listed = await sessions.list()
        agents = agent_ids(agents_settings.current)
        counts = Counter(each["agentId"] for each in listed)
        projection: dict[str, Any] = {}
        if params.include_cli_projection and caller.may(ADMIN):
            models = app.models.model_set(default_agent(agents_settings.current))
            projection["cliProjection"] = describe_home(
                app.environment, app.live.current, models, await app.index.list()
            )
        return {
            **projection,
            "runtimeVersion": __version__,
            "heartbeat": {"defaultAgentId": default_agent(agents_settings.current), "agents": []},
            "channelSummary": [] if params.include_channel_summary is False else await channels.summary(),
            "queuedSystemEvents": [],
            "tasks": {"total": 0, "active": 0, "terminal": 0, "failures": 0, "byStatus": {}, "byRuntime": {}},
            "sessions": {
                "paths": [str(state_dir / "agents" / agent / "sessions") for agent in agents],
                "count": len(listed),
                "defaults": {"model": str(app.models.model_set(agents[0]).default)},
                "recent": listed[:10],
                "byAgent": [{"agentId": agent, "count": counts[agent]} for agent in agents],
            },
            "running": services.runs.running,
            "uptimeMs": sessions.now - started_at,
            "processMemory": {"rssBytes": resident()},
        }

    async def who(params: NoParams, caller: Caller) -> Any:
        return presence.list()

    async def info(params: NoParams, caller: Caller) -> Any:
        return {
            "machineName": socket.gethostname(),
            "hostname": socket.gethostname(),
            "platform": sys.platform,
            "release": platform.release(),
            "arch": platform.machine(),
            "osLabel": f"{platform.system()} {platform.release()}",
            "nodeVersion": f"python {platform.python_version()}",
            "pid": os.getpid(),
            "uptimeMs": sessions.now - started_at,
            "cpuCount": os.cpu_count() or 1,
            "memoryTotalBytes": _memory("SC_PHYS_PAGES"),
            "memoryFreeBytes": _memory("SC_AVPHYS_PAGES"),
        }

    async def check(params: NoParams, caller: Caller) -> Any:
        return await asyncio.to_thread(_examine, app.environment)

    async def repair(params: DoctorRepairParams, caller: Caller) -> Any:
        return await asyncio.to_thread(_examine, app.environment, params)

    async def audit_security(params: SecurityAuditParams, caller: Caller) -> Any:
        return await asyncio.to_thread(_examine, app.environment, security=True, deep=bool(params.deep))

    async def repair_security(params: DoctorRepairParams, caller: Caller) -> Any:
        return await asyncio.to_thread(_examine, app.environment, params, security=True)

    async def tail_log(params: LogsTailParams, caller: Caller) -> Any:
        path = newest(logs) or state_dir / "logs" / "openclaw.log"
        limit, max_bytes = params.limit or TAIL_LINES, params.max_bytes or TAIL_BYTES
        try:
            return tail(path, cursor=params.cursor, limit=limit, max_bytes=max_bytes)
        except OSError:
            return LogTail(file=str(path), cursor=0, size=0, lines=())

    return [
        RpcMethod("health", HealthParams, health, None),
        RpcMethod("status", StatusParams, status, READ),
        RpcMethod("system-presence", NoParams, who, READ),
        RpcMethod("system.info", NoParams, info, READ),
        RpcMethod("logs.tail", LogsTailParams, tail_log, READ),
        RpcMethod("doctor.check", NoParams, check, READ),
        RpcMethod("doctor.repair", DoctorRepairParams, repair, ADMIN),
        RpcMethod("security.audit", SecurityAuditParams, audit_security, READ),
        RpcMethod("security.audit.repair", DoctorRepairParams, repair_security, ADMIN),
    ]


def _examine(environment: Environment, agreed: DoctorRepairParams | None = None, **what: bool) -> dict[str, Any]:
    # Here, because nobody asks for it most of the time, and it reads every part's settings.
    from openclaw.gateway.audit.service import examine

    return examine(environment, (agreed.check_id, agreed.plan) if agreed else None, **what)


def _memory(name: str) -> int:
    try:
        return os.sysconf(name) * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return 0
