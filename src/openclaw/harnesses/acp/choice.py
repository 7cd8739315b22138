"""Which external agent carries out a turn, and what stands for it among the models."""

from collections.abc import AsyncGenerator

from openclaw.core.errors import BadRequest, InvalidRequest
from openclaw.core.events import ModelEvent
from openclaw.core.provider import Endpoint, ModelRequest, Price
from openclaw.core.secret import Secret
from openclaw.models.model_set import ModelSet, build_model_set
from openclaw.models.profiles import Profiles
from openclaw.models.registry import ModelCatalog
from openclaw.models.settings import AuthSettings, ModelEntry, ModelsSettings, ProviderSettings
from openclaw.tools.settings import AcpSettings

PROVIDER = "acp"
API = "acp"
"""The `api` of messages that an external agent said."""
SILENCE = 3_600.0
"""It works on its own and may be silent for long."""


class AcpProvider:
    """Stands where a model would: an external agent carries out turns, and cannot be asked aside."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        raise BadRequest(f"{request.model.ref} is an external agent: it carries out turns, and is no model to ask.")

    async def close(self) -> None:
        return None


def open_none(endpoint: Endpoint) -> AcpProvider:
    """Opens what stands for an external agent."""
    return AcpProvider()


def choose_agent(settings: AcpSettings, named: str) -> str:
    """The agent to use; raises when there is none."""
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


def acp_model_set(settings: AcpSettings, ref: str) -> ModelSet:
    """The models in a conversation with an external agent: only the agent, under `acp/<name>`."""
    name = choose_agent(settings, ref.partition("/")[2])
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
        probe=tuple,
        auth=AuthSettings(),
        stored=Profiles(),
        primary=f"{PROVIDER}/{name}",
    )
