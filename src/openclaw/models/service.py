"""The models of each agent: which there are, credentials, thinking; a changed address is audited before its use."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import structs

from openclaw.agent.settings import AgentsSettings, ResolvedAgent, resolve_agent
from openclaw.core.errors import StateError
from openclaw.core.provider import Model, ThinkingLevel
from openclaw.core.settings import Live
from openclaw.models import discover, registry, thinking
from openclaw.models.failover import CredentialStats
from openclaw.models.model_set import ModelSet, build_model_set
from openclaw.models.profiles import ProfileStore
from openclaw.models.settings import AuthSettings, ModelsSettings
from openclaw.process.environment import Environment
from openclaw.security.audit import AuditChange
from openclaw.security.audit_log import AuditLog
from openclaw.storage.atomic import JsonFile


class ModelAddresses:
    """The addresses of `models.providers` as they were the last time somebody used them."""

    def __init__(self, state: Path, audit: AuditLog) -> None:
        self._file = JsonFile(
            state / "state" / "model-addresses.json",
            dict[str, str],
            "remove it; the addresses of today are written anew",
        )
        self._audit = audit
        self._settled: ModelsSettings | None = None

    def settle(self, models: ModelsSettings) -> None:
        """Returns when every change is on record. What is configured the first time of all is no change."""
        if models is self._settled:
            return
        now = {name: provider.base_url for name, provider in models.providers.items() if provider.base_url}
        known = self._file.read()
        if now != (known or {}):
            if known is not None:
                self._audit.append(deeds(known, now))
            self._file.write(now)
        self._settled = models


def deeds(before: Mapping[str, str], after: Mapping[str, str]) -> list[AuditChange]:
    """A deed for every provider that is asked elsewhere now."""
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
    """Whom an address names, without a password or a key in it."""
    if not url:
        return "none"
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "no address"
    return f"{parts.scheme}://{parts.hostname or ''}{port}"


log = logging.getLogger(__name__)


class ModelService:
    """The models as each agent sees them: which there are, who pays, how hard they think."""

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
            )
        return self._sets[agent_id]

    def thinking(
        self, model: Model, asked: str | None, agent: ResolvedAgent, session: str | None = None
    ) -> ThinkingLevel:
        """How hard a model thinks: as the turn, the session, the agent or the defaults say."""
        stored = agent.params.get("thinking")
        return thinking.choose(
            model,
            inline=thinking.parse(asked) if asked else None,
            session=thinking.parse(session) if session else None,
            agent_model=thinking.parse(stored) if isinstance(stored, str) else None,
            defaults=self._agents.current.defaults.thinking_default,
        )

    def _profiles(self, agent_id: str) -> ProfileStore:
        return ProfileStore.of_agent(self._state / "agents" / agent_id / "agent")

    async def keep_profile(
        self, agent_id: str, profile_id: str, change: Callable[[CredentialStats], CredentialStats], good_for: str | None
    ) -> None:
        """Notes how a credential fared. That it could not be noted is no reason to fail a run."""
        store = self._profiles(agent_id)
        try:
            await asyncio.to_thread(store.update, profile_id, change, good_for=good_for)
            stored = await asyncio.to_thread(store.load)
        except StateError as error:
            log.warning("%s", error.message)
            return
        situation = self._sets.get(agent_id)
        if situation is not None:
            keyring = structs.replace(situation.keyring, stored=stored)
            self._sets[agent_id] = structs.replace(situation, keyring=keyring)

    def _probe(self) -> tuple[discover.LocalModel, ...]:
        if self._environment.environ.get("OPENCLAW_NO_LOCAL_MODELS"):
            return ()
        return discover.probe_servers()
