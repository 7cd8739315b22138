"""Conversations that a coding agent of another maker carries on: who it is, and how a turn reaches it."""

from collections.abc import Callable, Mapping

from openclaw.core.approval import Approver
from openclaw.core.errors import InvalidRequest
from openclaw.core.provider import Endpoint, Price, Provider
from openclaw.core.secret import Secret
from openclaw.models.catalog import ModelCatalog
from openclaw.models.profiles import Profiles
from openclaw.models.settings import AuthSettings, ModelEntry, ModelsSettings, ProviderSettings
from openclaw.models.situation import ModelSet, build_model_set
from openclaw.policy.reach import AcpSettings
from openclaw.tools.acp.agent import AcpAgents, RunningAgent
from openclaw.turns.turn import RunRequest

PROVIDER = "acp"
SILENCE = 3_600.0
"""It works for itself and may say nothing for long."""


def chosen(settings: AcpSettings, named: str) -> str:
    """The agent that is meant, or why there is none."""
    if not settings.enabled:
        raise InvalidRequest("acp.enabled is false: no work is handed to external agents.")
    name = named or settings.default_agent
    known = sorted(settings.agents)
    if not known:
        raise InvalidRequest("No external agent is configured: set acp.agents.<name>.command (see docs/acp.md).")
    if not name:
        raise InvalidRequest(f"Say which external agent: agentId is one of {', '.join(known)}.")
    if name not in settings.agents:
        raise InvalidRequest(f"There is no external agent {name!r}: agentId is one of {', '.join(known)}.")
    if settings.allowed_agents and name not in settings.allowed_agents:
        raise InvalidRequest(f"acp.allowedAgents does not name {name}.")
    return name


class AcpHarness:
    """The external agents of this process; whoever made it closes it."""

    def __init__(self, approver: Approver, environ: Callable[[], Mapping[str, str]]) -> None:
        self._agents = AcpAgents(approver, environ)

    def open(self, settings: AcpSettings, ref: str, turn: RunRequest, workspace: str) -> Callable[[Endpoint], Provider]:
        """What answers a turn."""
        name = chosen(settings, ref.partition("/")[2])
        how = settings.agents[name]
        hired = RunningAgent(
            name=name,
            command=how.command,
            args=how.args,
            env=how.env,
            session_key=str(turn.key),
            agent_id=turn.key.agent,
            workspace=workspace,
        )
        return lambda endpoint: self._agents.agent(hired)

    async def close(self) -> None:
        await self._agents.close()


def acp_model_set(settings: AcpSettings, ref: str) -> ModelSet:
    """The models as a conversation with an external agent sees them: there is one, and it is the agent."""
    name = chosen(settings, ref.partition("/")[2])
    provider = ProviderSettings(
        base_url="http://localhost/acp",
        api="acp",
        api_key=Secret("not needed"),
        timeout_seconds=SILENCE,
        models=(ModelEntry(id=name, name=name, context_window=1_000_000, cost=Price()),),
    )
    return build_model_set(
        ModelsSettings(mode="replace", providers={PROVIDER: provider}),
        ModelCatalog(providers=(), models=()),
        environ={},
        probe=lambda: (),
        auth=AuthSettings(),
        stored=Profiles(),
        primary=f"{PROVIDER}/{name}",
    )
