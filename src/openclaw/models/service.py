"""The models of each agent: which there are, credentials, thinking; a changed address is audited before its use."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import structs

from openclaw.agent.settings import AgentsSettings, ResolvedAgent, agent_ids, default_agent, resolve_agent
from openclaw.core.errors import StateError
from openclaw.core.provider import Model, ThinkingLevel
from openclaw.core.settings import Live
from openclaw.models import discover, registry, thinking
from openclaw.models.failover import CredentialStats
from openclaw.models.model_set import ModelSet, build_model_set
from openclaw.models.profiles import ProfileStore
from openclaw.models.runtime import ChosenRuntime, choose_runtime
from openclaw.models.settings import AuthSettings, ModelsSettings
from openclaw.process.environment import Environment
from openclaw.security.audit import AuditChange
from openclaw.security.audit_log import AuditLog
from openclaw.storage.atomic import JsonFile

log = logging.getLogger(__name__)


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

    def runtime(self, agent_id: str, model: Model, session: str | None = None) -> ChosenRuntime:
        """What carries out a turn with `model`; `session` is what the session chose."""
        agents = self._agents.current
        if agent_id not in agent_ids(agents):  # it was taken out of the configuration; its sessions are still there
            agent_id = default_agent(agents)
        return choose_runtime(self._models.current, resolve_agent(self._agents.current, agent_id).entry, model, session)

    def model_set(self, agent_id: str) -> ModelSet:
        """The models as this agent sees them."""
        now = (self._agents.current, self._models.current, self._auth.current, self._variables.current)
        if not self._sets_for or any(one is not other for one, other in zip(now, self._sets_for, strict=True)):
            self._sets, self._sets_for = {}, now
        if agent_id not in self._sets:
            agents, models, auth, variables = now
            self._addresses.settle(models)
            agent = resolve_agent(agents, agent_id)
            self._sets[agent_id] = build_model_set(
                models,
                registry.load(),
                environ=variables,
                probe=self._probe,
                auth=auth,
                stored=self._profiles(agent_id).load(),
                primary=agent.primary,
                fallbacks=agent.fallbacks,
                aliases=agent.aliases,
                context_tokens=agents.defaults.context_tokens,
            )
        return self._sets[agent_id]

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
            stored = await asyncio.to_thread(store.load)
        except StateError as error:
            log.warning("%s", error.message)
            return
        known = self._sets.get(agent_id)
        if known is not None:
            keyring = structs.replace(known.keyring, stored=stored)
            self._sets[agent_id] = structs.replace(known, keyring=keyring)

    def _probe(self) -> tuple[discover.LocalModel, ...]:
        if self._environment.environ.get("OPENCLAW_NO_LOCAL_MODELS"):
            return ()
        return discover.probe_servers()
