"""Which runtime carries out a turn: the most specific choice wins, and the person can see whose it was."""

from typing import Literal, get_args
from urllib.parse import urlsplit

from msgspec import Struct

from openclaw.agent.settings import AgentEntry
from openclaw.core.errors import InvalidRequest
from openclaw.core.provider import Model
from openclaw.models.settings import ModelsSettings, RuntimeId

OPENAI_HOST = "api.openai.com"
NAMES = {"openclaw": "OpenClaw", "codex": "OpenAI Codex"}


class ChosenRuntime(Struct, frozen=True):
    """A runtime, and where it was chosen."""

    id: Literal["openclaw", "codex"]
    source: Literal["session", "agent", "model", "provider", "default"]

    @property
    def shown(self) -> dict[str, str]:
        """As clients see it."""
        return {"id": self.id, "source": self.source}

    @property
    def line(self) -> str:
        """As `/status` shows it."""
        return NAMES[self.id] if self.source == "default" else f"{NAMES[self.id]} (chosen for the {self.source})"


def parse_runtime(text: str) -> str:
    """A runtime as a person names it; raises for one that there is not."""
    name = "openclaw" if text.strip().lower() in ("embedded", "pi") else text.strip().lower()
    if name not in get_args(RuntimeId):
        raise InvalidRequest(f"There is no runtime {text!r}: choose one of {', '.join(get_args(RuntimeId))}.")
    return name


def choose_runtime(models: ModelsSettings, entry: AgentEntry, model: Model, session: str | None) -> ChosenRuntime:
    """The runtime of a turn: the session's, or else the agent's, the model's, the provider's; ours by default."""
    provider = models.providers.get(model.provider)
    listed = next((each for each in provider.models if each.id == model.id), None) if provider else None
    choices: tuple[tuple[str | None, Literal["session", "agent", "model", "provider"]], ...] = (
        (session, "session"),
        (entry.agent_runtime.id, "agent"),
        (listed.agent_runtime.id if listed else None, "model"),
        (provider.agent_runtime.id if provider else None, "provider"),
    )
    for name, source in choices:
        if name == "auto":
            return ChosenRuntime("codex" if _official(model) else "openclaw", source)
        if name == "codex" or name == "openclaw":
            return ChosenRuntime("codex" if name == "codex" else "openclaw", source)
    return ChosenRuntime("openclaw", "default")


def _official(model: Model) -> bool:
    """Whether it is OpenAI's own Responses API, asked as it is."""
    plain = not (model.headers or model.params)
    return plain and model.api == "openai-responses" and urlsplit(model.base_url).hostname == OPENAI_HOST
