"""Where models are asked: an address that changed in the configuration goes on record before anything is sent there."""

import asyncio
import logging
import random
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import structs

from openclaw.agent import settings
from openclaw.budget.metering import RunMeter
from openclaw.budget.service import BudgetService
from openclaw.config.load import LoadedConfig
from openclaw.core.clock import Clock
from openclaw.core.errors import StateError
from openclaw.core.harness import OpenProvider
from openclaw.core.keys import SessionKey
from openclaw.core.provider import Model, ThinkingLevel
from openclaw.core.tool import Approver
from openclaw.models import discover, registry, thinking
from openclaw.models.failover import CredentialStats
from openclaw.models.model_set import ModelSet, build_model_set
from openclaw.models.profiles import ProfileStore
from openclaw.models.recording import RecordedCall
from openclaw.models.settings import ModelsSettings
from openclaw.models.timeouts import patience
from openclaw.process.environment import Environment
from openclaw.runs.request import RunRequest
from openclaw.runs.route import FailoverRoute
from openclaw.sessions.lifecycle import SessionPreferences
from openclaw.storage.atomic import JsonFile

if TYPE_CHECKING:
    from openclaw.harnesses.acp import AcpHarness
    from openclaw.runs.replay import Compared
    from openclaw.security.audit import AuditChange
    from openclaw.security.audit_log import AuditLog


class ModelAddresses:
    """The addresses of `models.providers` as they were the last time somebody used them."""

    def __init__(self, state: Path, audit: "Callable[[], AuditLog]") -> None:
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
                self._audit().append(deeds(known, now))
            self._file.write(now)
        self._settled = models


def deeds(before: Mapping[str, str], after: Mapping[str, str]) -> "list[AuditChange]":
    """A deed for every provider that is asked elsewhere now."""
    from openclaw.security.audit import AuditChange

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
    def __init__(
        self,
        surroundings: Environment,
        clock: Clock,
        loaded: Callable[[], LoadedConfig],
        accounts: BudgetService,
        workspace: Callable[[str], Path],
        open_provider: OpenProvider,
        approver: Approver,
        audit: Callable[[], "AuditLog"],
    ) -> None:
        self._surroundings = surroundings
        self._state = surroundings.home.state
        self._clock = clock
        self._loaded = loaded
        self._accounts = accounts
        self._workspace = workspace
        self._open_provider = open_provider
        self._approver = approver
        self._audit = audit
        self._situations: dict[str, ModelSet] = {}

    def reconfigured(self) -> None:
        """Another configuration holds from now on."""
        self._situations.clear()

    def situation(self, agent_id: str) -> ModelSet:
        """The models as this agent sees them."""
        if agent_id not in self._situations:
            loaded = self._loaded()
            config = loaded.config
            self._addresses.settle(config.models)
            agent = settings.view(config.agents, agent_id)
            self._situations[agent_id] = build_model_set(
                config.models,
                registry.load(),
                environ=loaded.variables,
                probe=self._probe,
                auth=config.auth,
                stored=self._profiles(agent_id).load(),
                primary=agent.primary,
                fallbacks=agent.fallbacks,
                aliases=agent.aliases,
            )
        return self._situations[agent_id]

    def seen(self, agent_id: str, wanted: str | None) -> ModelSet:
        """The models as a turn that wants `wanted` sees them; an external agent is the only one in its own."""
        if wanted is None or not wanted.startswith("acp/"):
            return self.situation(agent_id)
        from openclaw.harnesses.acp import acp_model_set

        return acp_model_set(self._loaded().config.acp, wanted)

    def spending(self, run_id: str, key: SessionKey, session_id: str = "", footer: str | None = None) -> RunMeter:
        """The books of one run."""
        return self._accounts.spending(run_id, key, session_id, partial(self._keep_profile, key.agent), footer)

    async def route(
        self,
        turn: RunRequest,
        agent: settings.AgentView,
        chosen: SessionPreferences,
        spending: RunMeter,
        *,
        picked: bool = True,
    ) -> FailoverRoute:
        """The models of a turn. One that a person picked, for the turn or the session, is not traded for another."""
        wanted = turn.model or chosen.model
        situation = self.seen(agent.id, wanted)
        opens = self._open_provider
        if wanted is not None and wanted.startswith("acp/"):
            opens = self.external.open(self._loaded().config.acp, wanted, turn, str(self._workspace(agent.id)))
        requested = situation.resolve(wanted) if wanted else None
        chain = situation.chain(requested, strict=picked and requested is not None)
        if requested is None or not picked:
            chain = await self._accounts.chain(spending, situation, chain)
        return FailoverRoute(
            situation,
            chain,
            open_provider=opens,
            clock=self._clock,
            thinking=lambda model: self.thinking(model, turn.thinking, agent, chosen.thinking_level),
            patience=lambda model: patience(model, run_timeout=turn.timeout),
            jitter=random.random,
            spending=spending,
            probes=self._accounts.probes,
        )

    def thinking(
        self, model: Model, asked: str | None, agent: settings.AgentView, session: str | None = None
    ) -> ThinkingLevel:
        """How hard a model thinks: as the turn, the session, the agent or the defaults say."""
        stored = agent.params.get("thinking")
        return thinking.choose(
            model,
            inline=thinking.parse(asked) if asked else None,
            session=thinking.parse(session) if session else None,
            agent_model=thinking.parse(stored) if isinstance(stored, str) else None,
            defaults=self._loaded().config.agents.defaults.thinking_default,
        )

    async def ask_again(self, key: SessionKey, calls: Sequence[RecordedCall], ref: str) -> AsyncIterator["Compared"]:
        """Recorded requests, answered by another model: real calls, on the books of the agent of `key`."""
        from openclaw.runs.replay import compare  # few ever compare

        agent = settings.view(self._loaded().config.agents, key.agent)
        turn = RunRequest(run_id=f"replay-{uuid.uuid4()}", key=key, text="", model=ref)
        spending = self.spending(turn.run_id, key)
        try:
            route = await self.route(turn, agent, SessionPreferences(), spending)
            async for each in compare(calls, route.attempt):
                yield each
        finally:
            await spending.settle()

    @cached_property
    def external(self) -> "AcpHarness":
        """Coding agents of other makers."""
        from openclaw.harnesses.acp import AcpHarness

        return AcpHarness(self._approver, lambda: self._loaded().variables)

    async def close(self) -> None:
        if "external" in self.__dict__:  # made at its first use
            await self.external.close()

    @cached_property
    def _addresses(self) -> "ModelAddresses":

        return ModelAddresses(self._state, self._audit)

    def _profiles(self, agent_id: str) -> ProfileStore:
        return ProfileStore.of_agent(self._state / "agents" / agent_id / "agent")

    async def _keep_profile(
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
        situation = self._situations.get(agent_id)
        if situation is not None:
            keyring = structs.replace(situation.keyring, stored=stored)
            self._situations[agent_id] = structs.replace(situation, keyring=keyring)

    def _probe(self) -> tuple[discover.Served, ...]:
        if self._surroundings.environ.get("OPENCLAW_NO_LOCAL_MODELS"):
            return ()
        return discover.probe_servers()
