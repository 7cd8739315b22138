"""The models of every agent: which there are, whom a turn asks, and how their credentials fare."""

import asyncio
import logging
import random
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from openclaw.config.load import LoadedConfig
from openclaw.core.approval import Approver
from openclaw.core.clock import Clock
from openclaw.core.errors import StateError
from openclaw.core.keys import SessionKey
from openclaw.core.provider import Model, ThinkingLevel
from openclaw.gateway.accounts import BudgetService
from openclaw.gateway.surroundings import Environment
from openclaw.models import catalog, discover, thinking
from openclaw.models.cooldown import CredentialStats
from openclaw.models.profilestore import ProfileStore
from openclaw.models.situation import ModelSet, build_model_set
from openclaw.sessions.lifecycle import SessionPreferences
from openclaw.turns import agents
from openclaw.turns.patience import patience
from openclaw.turns.recording import RecordedCall
from openclaw.turns.route import FailoverRoute, OpenProvider
from openclaw.turns.spending import RunMeter
from openclaw.turns.turn import RunRequest

if TYPE_CHECKING:
    from openclaw.gateway.external import AcpHarness
    from openclaw.gateway.modeladdresses import ModelAddresses
    from openclaw.trust.auditlog import AuditLog
    from openclaw.turns.replaying import Compared

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
            agent = agents.view(config.agents, agent_id)
            self._situations[agent_id] = build_model_set(
                config.models,
                catalog.load(),
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
        from openclaw.gateway.external import acp_model_set

        return acp_model_set(self._loaded().config.acp, wanted)

    def spending(self, run_id: str, key: SessionKey, session_id: str = "", footer: str | None = None) -> RunMeter:
        """The books of one run."""
        return self._accounts.spending(run_id, key, session_id, partial(self._keep_profile, key.agent), footer)

    async def route(
        self,
        turn: RunRequest,
        agent: agents.AgentView,
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
        self, model: Model, asked: str | None, agent: agents.AgentView, session: str | None = None
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
        from openclaw.turns.replaying import compare  # few ever compare

        agent = agents.view(self._loaded().config.agents, key.agent)
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
        from openclaw.gateway.external import AcpHarness

        return AcpHarness(self._approver, lambda: self._loaded().variables)

    async def close(self) -> None:
        if "external" in self.__dict__:  # made at its first use
            await self.external.close()

    @cached_property
    def _addresses(self) -> "ModelAddresses":
        from openclaw.gateway.modeladdresses import ModelAddresses

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
