"""The models of each agent: which there are, credentials, thinking; a changed address is audited before its use."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from operator import is_
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from msgspec import Struct, structs

from openclaw.agent.settings import AgentEntry, AgentsSettings, ResolvedAgent, agent_ids, default_agent, resolve_agent
from openclaw.core.clock import Clock
from openclaw.core.errors import ConfigError, InvalidRequest, StateError
from openclaw.core.keys import DEFAULT_AGENT
from openclaw.core.provider import Model, ThinkingLevel
from openclaw.core.secret import Secret
from openclaw.core.settings import Live
from openclaw.models import discover, registry, thinking
from openclaw.models.failover import CredentialStats
from openclaw.models.model_set import ModelSet, build_model_set
from openclaw.models.profiles import AuthProfile, Profiles, ProfileStore, merge
from openclaw.models.registry import OFFLINE
from openclaw.models.settings import AuthSettings, ModelEntry, ModelsSettings, Posture, ProviderSettings
from openclaw.process.environment import Environment
from openclaw.protocol.events import EventBus
from openclaw.security.audit import AuditChange
from openclaw.security.audit_log import AuditLog
from openclaw.storage.atomic import JsonFile

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""How often a gateway looks for keys, and without a model for a model server on this machine."""


class ModelAddresses:
    """The addresses of `models.providers` at their last use, to notice changes."""

    def __init__(self, state: Path, audit: AuditLog) -> None:
        self._file = JsonFile(
            state / "state" / "model-addresses.json",
            dict[str, str],
            "remove it; the addresses of today are written anew",
        )
        self._audit = audit
        self._settled: ModelsSettings | None = None

    def settle(self, models: ModelsSettings) -> None:
        """Records every change of an address in the audit log; the addresses of the very first start are none."""
        if models is self._settled:
            return
        now = {name: provider.base_url for name, provider in models.providers.items() if provider.base_url}
        known = self._file.read()
        if now != (known or {}):
            if known is not None:
                self._audit.append(address_changes(known, now))
            self._file.write(now)
        self._settled = models


def address_changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[AuditChange]:
    """An audit entry for every provider whose address changed."""
    return [
        AuditChange(
            plugin="config",
            hook="models",
            field=f"models.providers.{name}.baseUrl",
            before=before.get(name, ""),
            after=after.get(name, ""),
            note=f"{_host(before.get(name))} -> {_host(after.get(name))}",
        )
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]


def _host(url: str | None) -> str:
    """Scheme, host and port of an address, without a password or a key in it."""
    if not url:
        return "none"
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "no address"
    return f"{parts.scheme}://{parts.hostname or ''}{port}"


def key_profile(provider: str) -> str:
    """The profile that the key of a provider is kept in."""
    return f"{provider}:default"


# Which runtime carries out a turn: the most specific choice wins, and the person can see whose it was.

OPENAI_HOST = "api.openai.com"
NAMES = {"openclaw": "OpenClaw", "codex": "OpenAI Codex", "acp": "ACP"}
CHOICES = ("openclaw", "codex", "acp", "acp/NAME", "auto")
ALIASES = {"embedded": "openclaw", "pi": "openclaw"}
RUNTIMES: Mapping[str, Literal["openclaw", "codex", "acp"]] = {"openclaw": "openclaw", "codex": "codex", "acp": "acp"}
RuntimeSource = Literal["session", "agent", "model", "provider", "default"]


class ChosenRuntime(Struct, frozen=True):
    """A runtime, and where it was chosen."""

    id: Literal["openclaw", "codex", "acp"]
    source: RuntimeSource
    agent: str = ""
    """Of `acp`: the external agent; empty for `acp.defaultAgent`."""

    @property
    def shown(self) -> dict[str, str]:
        """As clients see it."""
        return {"id": self.id, "source": self.source, **({"agent": self.agent} if self.agent else {})}

    @property
    def line(self) -> str:
        """As `/status` shows it."""
        name = f"{NAMES[self.id]} ({self.agent})" if self.agent else NAMES[self.id]
        return name if self.source == "default" else f"{name} (chosen for the {self.source})"


def parse_runtime(text: str) -> str:
    """A runtime as a person names it; raises for one that there is not."""
    name, slash, agent = text.strip().partition("/")
    name = ALIASES.get(name.lower(), name.lower())
    if name not in (*RUNTIMES, "auto") or (slash and (name != "acp" or not agent)):
        raise InvalidRequest(f"There is no runtime {text!r}: choose one of {', '.join(CHOICES)}.")
    return f"{name}/{agent}" if agent else name


def choose_runtime(
    models: ModelsSettings, entry: AgentEntry, model: Model | None, session: str | None
) -> ChosenRuntime:
    """The runtime of a turn: the session's, or else the agent's, the model's, the provider's; ours by default.

    Without a `model` only the first two have a say.
    """
    if model is not None and model.api == "acp":  # the external agent itself was chosen as the model
        return ChosenRuntime("acp", "session", model.id)
    provider, listed = _entries(models, model) if model is not None else (None, None)
    choices: tuple[tuple[str | None, RuntimeSource], ...] = (
        (session, "session"),
        (entry.agent_runtime.id, "agent"),
        (listed.agent_runtime.id if listed else None, "model"),
        (provider.agent_runtime.id if provider else None, "provider"),
    )
    for chosen, source in choices:
        name, _, agent = (chosen or "").partition("/")
        if name == "auto":
            return ChosenRuntime("codex" if model is not None and _official(model) else "openclaw", source)
        if name in RUNTIMES:
            return ChosenRuntime(RUNTIMES[name], source, agent)
    return ChosenRuntime("openclaw", "default")


def choose_posture(models: ModelsSettings, entry: AgentEntry, model: Model) -> Posture:
    """Whose shell and file changes a Codex turn has: as the agent says, or else the model or the provider; ours."""
    provider, listed = _entries(models, model)
    found = (entry.agent_runtime, *(each.agent_runtime for each in (listed, provider) if each is not None))
    return next((each.posture for each in found if each.posture is not None), "own")


def _entries(models: ModelsSettings, model: Model) -> tuple[ProviderSettings | None, ModelEntry | None]:
    provider = models.providers.get(model.provider)
    return provider, next((each for each in provider.models if each.id == model.id), None) if provider else None


def _official(model: Model) -> bool:
    """Whether it is OpenAI's own Responses API, asked as it is."""
    plain = not (model.headers or model.params)
    return plain and model.api == "openai-responses" and urlsplit(model.base_url).hostname == OPENAI_HOST


class ModelService:
    """The model set of each agent, its thinking levels and the stats of its credentials."""

    def __init__(
        self,
        environment: Environment,
        audit: AuditLog,
        *,
        agents: Live[AgentsSettings],
        models: Live[ModelsSettings],
        auth: Live[AuthSettings],
        variables: Live[Mapping[str, str]],
    ) -> None:
        self._environment = environment
        self._state = environment.home.state
        self._agents = agents
        self._models = models
        self._auth = auth
        self._variables = variables
        self._addresses = ModelAddresses(self._state, audit)
        self._sets: dict[str, ModelSet] = {}
        self._sets_for: tuple[Any, ...] = ()
        self._keys_seen: dict[str, tuple[int, ...]] = {}
        """By agent: the state of the profile files its set was built from."""
        self._served: tuple[discover.LocalModel, ...] | None = None

    def runtime(self, agent_id: str, model: Model | None, session: str | None = None) -> ChosenRuntime:
        """What carries out a turn with `model`; `session` is what the session chose."""
        agents = self._agents.current
        if agent_id not in agent_ids(agents):  # it was taken out of the configuration; its sessions are still there
            agent_id = default_agent(agents)
        return choose_runtime(self._models.current, resolve_agent(self._agents.current, agent_id).entry, model, session)

    def posture(self, agent_id: str, model: Model) -> Posture:
        """Whose shell and file changes a Codex turn of this agent has."""
        return choose_posture(self._models.current, resolve_agent(self._agents.current, agent_id).entry, model)

    def model_set(self, agent_id: str) -> ModelSet:
        """The models as this agent sees them."""
        now = (self._agents.current, self._models.current, self._auth.current, self._variables.current)
        if not self._sets_for or not all(map(is_, now, self._sets_for)):
            self._sets, self._sets_for = {}, now
        if agent_id not in self._sets:
            self._addresses.settle(now[1])
            self._keys_seen[agent_id] = self._stamps(agent_id)
            self._sets[agent_id] = self._build(agent_id, now[1], self._stored(agent_id))
        return self._sets[agent_id]

    def has_model(self, agent_id: str) -> bool:
        """Whether a model can answer; the offline responder is none."""
        try:
            return self.model_set(agent_id).default.provider != OFFLINE
        except ConfigError:
            return False

    def _build(self, agent_id: str, models: ModelsSettings, stored: Profiles, primary: str | None = None) -> ModelSet:
        agent = resolve_agent(self._agents.current, agent_id)
        return build_model_set(
            models,
            registry.load(),
            environ=self._variables.current,
            probe=self.local_models,
            auth=self._auth.current,
            stored=stored,
            primary=primary or agent.primary,
            fallbacks=() if primary else agent.fallbacks,
            aliases=agent.aliases,
            context_tokens=self._agents.current.defaults.context_tokens,
        )

    def trial_set(
        self,
        agent_id: str,
        providers: Mapping[str, ProviderSettings],
        keys: Mapping[str, Secret],
    ) -> ModelSet:
        """The models with further providers and keys that are not kept yet; the keys come before those that are."""
        stored = self._stored(agent_id)
        new = {key_profile(name): AuthProfile(provider=name, secret=key) for name, key in keys.items()}
        order = {**stored.order, **{name: (key_profile(name),) for name in keys}}
        models = self._models.current
        return self._build(
            agent_id,
            structs.replace(models, providers={**models.providers, **providers}),
            structs.replace(stored, profiles={**stored.profiles, **new}, order=order),
            # A default that does not work must not keep a person from choosing one that does.
            primary=f"{OFFLINE}/{OFFLINE}",
        )

    def store_key(self, provider: str, key: Secret) -> None:
        """Keeps a key for all agents."""
        self._profiles(DEFAULT_AGENT).put(key_profile(provider), provider, key)
        self._sets.clear()

    def _stamps(self, agent_id: str) -> tuple[int, ...]:
        """Changes with the profile files: another process may store a key while this one runs."""
        return (*self._profiles(DEFAULT_AGENT).stamp(), *self._profiles(agent_id).stamp())

    def _stored(self, agent_id: str) -> Profiles:
        """The profiles of an agent over those of the main one, which all agents share."""
        own = self._profiles(agent_id).load()
        return own if agent_id == DEFAULT_AGENT else merge(self._profiles(DEFAULT_AGENT).load(), own)

    def thinking(
        self, model: Model, asked: str | None, agent: ResolvedAgent, session: str | None = None
    ) -> ThinkingLevel:
        """The thinking level of a turn: the message's, else the session's, the agent's or the default."""
        if not model.reasoning and asked is None:
            return "off"
        stored = agent.params.get("thinking")
        return thinking.choose(
            model,
            thinking.parse(asked) if asked else None,
            thinking.parse(session) if session else None,
            thinking.parse(stored) if isinstance(stored, str) else None,
            self._agents.current.defaults.thinking_default,
        )

    def _profiles(self, agent_id: str) -> ProfileStore:
        return ProfileStore.of_agent(self._state / "agents" / agent_id / "agent")

    async def keep_profile(
        self, agent_id: str, profile_id: str, change: Callable[[CredentialStats], CredentialStats], good_for: str | None
    ) -> None:
        """Updates the stats of a credential; a failure to write is logged, and the run goes on."""
        store = self._profiles(agent_id)
        try:
            await asyncio.to_thread(store.update, profile_id, change, good_for=good_for)
            seen = self._stamps(agent_id)
            stored = await asyncio.to_thread(self._stored, agent_id)
        except StateError as error:
            log.warning("%s", error.message)
            return
        known = self._sets.get(agent_id)
        if known is not None:
            keyring = structs.replace(known.keyring, stored=stored)
            self._sets[agent_id] = structs.replace(known, keyring=keyring)
            self._keys_seen[agent_id] = seen

    def local_models(self) -> tuple[discover.LocalModel, ...]:
        """What the model servers of this machine offered when they were last asked; asks the first time."""
        if self._served is None:
            self._served = self._probe()
        return self._served

    def _probe(self) -> tuple[discover.LocalModel, ...]:
        if self._environment.environ.get("OPENCLAW_NO_LOCAL_MODELS"):
            return ()
        return discover.probe_servers()

    async def look_for_servers(self) -> bool:
        """Asks the model servers of this machine again; gives whether what they offer has changed."""
        before = self.local_models()
        self._served = await asyncio.to_thread(self._probe)
        if self._served == before:
            return False
        self._sets.clear()
        return True

    async def watch(self, bus: EventBus, clock: Clock) -> None:
        """Takes up keys that another process stored, and model servers started later, while there is no model."""
        looks = not self._environment.environ.get("OPENCLAW_NO_LOCAL_MODELS")
        while True:
            stale = [agent for agent in self._sets if self._keys_seen[agent] != self._stamps(agent)]
            for agent in stale:
                del self._sets[agent]
            offline = looks and any(known.default.provider == OFFLINE for known in self._sets.values())
            if (offline and await self.look_for_servers()) or stale:
                bus.publish("models.changed", {})
            await clock.sleep(LOOK_SECONDS)
