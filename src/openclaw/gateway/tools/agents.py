"""The `agents_list` tool: whom an agent may start."""

from collections.abc import Mapping
from typing import Any

from openclaw.core.tool import Output, ToolContext
from openclaw.gateway.desk import SessionService
from openclaw.gateway.tools.shape import SimpleTool, json_output, spec
from openclaw.turns.agents import agent_ids, view


class AgentsList(SimpleTool):
    """The `agents_list` tool."""

    spec = spec("agents_list", "Agents", "list agents you may start", "List the agents sessions_spawn may start.", {})

    def __init__(self, desk: SessionService) -> None:
        self._desk = desk

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        config = self._desk.app.config.agents
        allowed = allowed_agents(self._desk, context.agent_id)
        any_agent = "*" in allowed
        rows = []
        for agent_id in agent_ids(config):
            if any_agent or agent_id in allowed or agent_id == context.agent_id:
                entry = view(config, agent_id).entry
                name = entry.name or entry.identity.name
                model = str(self._desk.app.models.situation(agent_id).default)
                runtime = {"id": "openclaw", "source": "default"}
                shown = {"id": agent_id, "configured": bool(config.list), "model": model, "agentRuntime": runtime}
                rows.append({**shown, **({"name": name} if name else {})})
        return json_output({"requester": context.agent_id, "allowAny": any_agent, "agents": rows})


def allowed_agents(desk: SessionService, agent_id: str) -> tuple[str, ...]:
    """The agents an agent may start; itself when nothing is said."""
    config = desk.app.config.agents
    own = view(config, agent_id).entry.subagents.allow_agents
    allowed = own if own is not None else config.defaults.subagents.allow_agents
    return allowed if allowed is not None else (agent_id,)
