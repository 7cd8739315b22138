"""The models of one run: who is asked, with which credential, and who comes next when that fails."""

import logging
import random
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from openclaw.agent.loop import EmbeddedHarness, ModelAsker
from openclaw.agent.settings import AgentsSettings, ResolvedAgent, image_model, resolve_agent
from openclaw.agent.tool_runner import NO_TOOLS
from openclaw.budget.meter import RunMeter
from openclaw.budget.service import BudgetService
from openclaw.core.clock import Clock, format_duration, millis
from openclaw.core.errors import AuthFailed, BadResponse, InvalidRequest, NetworkFailed, OverBudget, ProviderError
from openclaw.core.harness import Attempt, Harness, RunJob
from openclaw.core.keys import MAIN, SessionKey
from openclaw.core.messages import Image, Text, User
from openclaw.core.provider import Model, OpenProvider, System, ThinkingLevel
from openclaw.core.settings import Live
from openclaw.core.tool import Approver, ToolSpec
from openclaw.harnesses.acp.choice import acp_model_set, open_none
from openclaw.models import failover
from openclaw.models.credentials import Credential
from openclaw.models.failover import (
    CandidateFailed,
    CredentialStats,
    FailoverState,
    NextCandidate,
    NextProfile,
    Retry,
    block_reason,
)
from openclaw.models.model_set import ModelSet
from openclaw.models.refs import ModelRef
from openclaw.models.registry import is_private_address
from openclaw.models.service import ModelService
from openclaw.models.timeouts import stream_timeouts
from openclaw.prompt.build import Prompt, assemble
from openclaw.prompt.builder import BuiltPrompt, with_changes
from openclaw.prompt.facts import Section
from openclaw.runs.request import RunRequest
from openclaw.security.gates import ExecGate
from openclaw.security.label_service import files_of_programs
from openclaw.sessions.lifecycle import SessionPreferences
from openclaw.tools.settings import AcpSettings
from openclaw.workspace.seed import Workspaces

if TYPE_CHECKING:
    from openclaw.harnesses.acp.harness import AcpHarness
    from openclaw.harnesses.codex.harness import CodexHarness
    from openclaw.harnesses.codex.routing import CodexSession

log = logging.getLogger("openclaw.models")

NONSENSE_TRIES = 3
"""Three unreadable answers are most likely not a model at all."""
LOCAL_TRIES = 2
"""A local server that refuses connections is not running: waiting does not help."""


class NoUsableCredential(ProviderError):
    """Every credential of a model is cooling down."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class FailoverRoute:
    """Walks the candidates of a turn as `models.failover` decides, and remembers why each failed."""

    def __init__(
        self,
        situation: ModelSet,
        chain: Sequence[ModelRef],
        *,
        open_provider: OpenProvider,
        clock: Clock,
        thinking: Callable[[Model], ThinkingLevel],
        run_timeout: float | None,
        jitter: Callable[[], float],
        spending: RunMeter | None = None,
        probes: dict[str, float] | None = None,
    ) -> None:
        self._situation = situation
        self._chain = list(chain)
        self._open = open_provider
        self._clock = clock
        self._thinking = thinking
        self._run_timeout = run_timeout
        self._jitter = jitter
        self._spending = spending
        self._probes = {} if probes is None else probes
        """When a resting provider was last tried all the same, in this process."""
        self._probed: set[str] = set()
        self._primary = self._chain[0] if self._chain else None
        self._good_at = clock.now()
        self._tries = 1
        self._rotations = 0
        self.failures: list[CandidateFailed] = []
        self._credentials: list[Credential] = []
        self.attempt = self._next_candidate()

    def failed(self, error: ProviderError) -> float | None:
        model = self.attempt.model
        state = FailoverState(
            attempts=self._tries,
            since_success=self._clock.now() - self._good_at,
            rotations=self._rotations,
            profiles_left=len(self._credentials) - 1,
            candidates_left=len(self._chain),
            retry_after=error.retry_after,
            jitter=self._jitter(),
        )
        step = failover.next_step(error.reason, state)
        unreachable = (
            isinstance(error, NetworkFailed) and is_private_address(model.base_url) and self._tries >= LOCAL_TRIES
        )
        nonsense = isinstance(error, BadResponse) and self._tries >= NONSENSE_TRIES
        if isinstance(step, Retry) and (unreachable or nonsense):
            step = NextCandidate() if self._chain else failover.StopTrying("it is not running, or is something else")
        log.warning("%s failed (%s): %s", model.ref, error.reason, error.message)
        if self._spending is not None:
            self._spending.failed(model, self._credentials[0], error, given_up=not isinstance(step, Retry))
        match step:
            case Retry(wait):
                self._tries += 1
                return wait
            case NextProfile():
                self._credentials.pop(0)
                self._rotations += 1
                self.attempt = self._attempt(model)
                return 0.0
            case NextCandidate():
                self.failures.append(CandidateFailed(model.ref, error.reason, error.message))
                try:
                    self.attempt = self._next_candidate()
                except ProviderError:
                    return None
                return 0.0
            case _:
                self.failures.append(CandidateFailed(model.ref, error.reason, error.message))
                return None

    def answered(self) -> None:
        if self._spending is not None:
            self._spending.answered(self.attempt.model, self._credentials[0])
        self._good_at = self._clock.now()
        self._tries = 1

    def verdict(self, error: ProviderError) -> str:
        """The message for the person when no model answered."""
        if isinstance(error, OverBudget) and all(each.reason == error.reason for each in self.failures):
            return error.message
        return failover.exhausted_message(self.failures) if len(self.failures) > 1 else error.message

    def _next_candidate(self) -> Attempt:
        """The first of the remaining candidates that there is a credential for."""
        missing: ProviderError | None = None
        while self._chain:
            ref = self._chain.pop(0)
            model = self._situation.model(ref)
            try:
                self._credentials = self._usable(ref, model)
            except (AuthFailed, NoUsableCredential) as error:
                missing = missing or error
                self.failures.append(CandidateFailed(model.ref, error.reason, error.message))
                continue
            self._rotations = 0
            return self._attempt(model)
        if isinstance(missing, NoUsableCredential):
            raise NoUsableCredential(missing.reason, failover.exhausted_message(self.failures))
        raise missing or AuthFailed("no model is configured: `openclaw models status` says what is missing")

    def _usable(self, ref: ModelRef, model: Model) -> list[Credential]:
        """The credentials that are not cooling down, or the one that may be probed although it is."""
        now = millis(self._clock)
        found = self._situation.credentials(ref, now)
        rested = [credential for credential in found if credential.rests_until is None]
        if rested:
            return rested
        first = min(found, key=lambda credential: credential.rests_until or 0)
        stats = self._situation.keyring.stored.stats.get(first.profile_id or "", CredentialStats())
        reason = block_reason(stats, ref.model, now) or "unknown"
        ends_in = ((first.rests_until or now) - now) / 1000
        last = self._probes.get(ref.provider)
        if failover.may_probe_cooling(
            reason,
            is_primary=self._primary is not None and ref.key == self._primary.key,
            ends_in=ends_in,
            since_probe=None if last is None else self._clock.now() - last,
            probed_this_run=ref.provider in self._probed,
        ):
            self._probes[ref.provider] = self._clock.now()
            self._probed.add(ref.provider)
            return [first]
        if self._spending is not None:
            self._spending.skipped(model, reason, stats.last_failure_at or now)
        raise NoUsableCredential(
            reason, f"it rests after {reason.replace('_', ' ')}, for another {format_duration(ends_in)}"
        )

    def _attempt(self, model: Model) -> Attempt:
        self._tries = 1
        credential = self._credentials[0]
        endpoint = self._situation.endpoint(model, credential)
        patience = stream_timeouts(model.provider, model.id, model.base_url, model.timeout_seconds, self._run_timeout)
        return Attempt(
            model=model,
            provider=self._open(endpoint),
            endpoint=endpoint,
            reserve=None if self._spending is None else partial(self._spending.reserve, credential),
            thinking=self._thinking(model),
            first_event_timeout=patience.first,
            idle_timeout=patience.idle,
        )


class ModelRoutes:
    """Opens the way of a run to its models: which are asked in which order, on whose account."""

    def __init__(
        self,
        models: ModelService,
        budget: BudgetService,
        open_provider: OpenProvider,
        workspaces: Workspaces,
        clock: Clock,
        *,
        agents: Live[AgentsSettings],
        acp: Live[AcpSettings],
        state: Path,
        variables: Live[Mapping[str, str]],
        approver: Approver,
    ) -> None:
        self._models = models
        self._budget = budget
        self._open_provider = open_provider
        self._workspaces = workspaces
        self._clock = clock
        self._agents = agents
        self._acp = acp
        self._state = state
        self._variables = variables
        self._approver = approver
        self._codex: CodexHarness | None = None
        self._external: AcpHarness | None = None

    def meter(self, run_id: str, key: SessionKey, session_id: str = "", footer: str | None = None) -> RunMeter:
        """The books of one run."""
        keep = partial(self._models.keep_profile, key.agent)
        return self._budget.spending(run_id, key, session_id, keep, footer)

    async def open(
        self,
        request: RunRequest,
        agent: ResolvedAgent,
        chosen: SessionPreferences,
        meter: RunMeter,
        *,
        picked: bool = True,
        carried: bool = False,
    ) -> FailoverRoute:
        """The models of a run. One that a person picked, for the run or the session, is not traded for another.

        A turn that is `carried` out goes to the external agent its runtime names; what is asked aside does not.
        """
        wanted = request.model or chosen.model
        model_set, opens = self._models.model_set(agent.id), self._open_provider
        if carried and not (wanted or "").startswith("acp/"):
            first = model_set.model(model_set.resolve(wanted) if wanted else model_set.default)
            runtime = self._models.runtime(agent.id, first, chosen.agent_runtime)
            wanted = f"acp/{runtime.agent}" if runtime.id == "acp" else wanted
        if wanted is not None and wanted.startswith("acp/"):  # an external agent is the only one in its own set
            model_set, opens = acp_model_set(self._acp.current, wanted), open_none
            wanted = str(model_set.default)
        requested = model_set.resolve(wanted) if wanted else None
        chain = model_set.chain(requested, strict=picked and requested is not None)
        if requested is not None and requested not in chain:  # asked for by a plugin, not by a person
            log.warning("%s is weaker than models.minTier allows, so %s answers", requested, chain[0])
        if meter.rules.limits and (requested is None or not picked):
            chain = await self._budget.chain(meter, model_set, chain)

        return FailoverRoute(
            model_set,
            chain,
            open_provider=opens,
            clock=self._clock,
            thinking=partial(self._models.thinking, asked=request.thinking, agent=agent, session=chosen.thinking_level),
            run_timeout=request.timeout,
            jitter=random.random,
            spending=meter,
            probes=self._budget.probes,
        )

    def harness(
        self,
        turn: RunRequest,
        chosen: SessionPreferences,
        route: FailoverRoute,
        built: BuiltPrompt,
        session_id: str,
        gate: ExecGate,
        tools: Sequence[ToolSpec],
    ) -> tuple[Harness, BuiltPrompt]:
        """What carries out a turn, and the prompt as that takes it.

        Raises when it cannot: another runtime is never used in its place.
        """
        model = route.attempt.model
        runtime = self._models.runtime(turn.key.agent, model, chosen.agent_runtime)
        if runtime.id == "openclaw":
            return EmbeddedHarness(route, self._clock), built
        if runtime.id == "acp":
            return self._external_turn(turn, route, built, session_id), built
        from openclaw.harnesses.codex.harness import CodexHarness

        if self._codex is None:
            self._codex = CodexHarness(self._state / "agents", self._variables, self._clock)
        session, carried = self._codex_session(turn, model, built, session_id, gate, tools)
        return self._codex.turn(session, route), carried

    def carried(
        self,
        turn: RunRequest,
        chosen: SessionPreferences,
        model: Model,
        built: BuiltPrompt,
        gate: ExecGate,
        tools: Sequence[ToolSpec],
    ) -> BuiltPrompt:
        """A prompt as the runtime of its turn takes it."""
        if self._models.runtime(turn.key.agent, model, chosen.agent_runtime).id != "codex":
            return built
        return self._codex_session(turn, model, built, "", gate, tools)[1]

    def _codex_session(
        self,
        turn: RunRequest,
        model: Model,
        built: BuiltPrompt,
        session_id: str,
        gate: ExecGate,
        tools: Sequence[ToolSpec],
    ) -> "tuple[CodexSession, BuiltPrompt]":
        from openclaw.harnesses.codex import routing

        names = {tool.name for tool in built.facts.tools}
        boxed = built.facts.sandbox is not None
        files = not boxed and "read" in names
        posture = self._models.posture(turn.key.agent, model) if "exec" in names and not boxed else "own"
        sections: tuple[Section, ...] = ()
        if not turn.light:
            sections = routing.carry_sections(
                built.prompt.sections, files=files, heartbeat=turn.trigger == "heartbeat", posture=posture
            )
        session = routing.CodexSession(
            agent_id=turn.key.agent,
            session_id=session_id,
            workspace=str(self._workspaces.of(turn.key.agent)),
            layers=routing.make_layers(sections, files=files) if sections else routing.light_layers(files=files),
            posture=posture,
            may_type=gate.is_open(turn.key.agent, {}),
            visits=turn.trigger != "user",
            light=turn.light,
        )
        sections = (routing.parameters_section(session, tools, model=model.id), *sections)
        prompt = Prompt(
            sections=sections,
            stable=assemble(each for each in sections if each.stable).rstrip(),
            dynamic=assemble(each for each in sections if not each.stable).lstrip(),
        )
        return session, with_changes(built, prompt, built.report.changes, tools)

    def _external_turn(self, turn: RunRequest, route: FailoverRoute, built: BuiltPrompt, session_id: str) -> Harness:
        """A turn of the external agent that stands in `route`."""
        from openclaw.harnesses.acp.harness import AcpHarness, AcpSession

        if built.facts.sandbox is not None:
            raise InvalidRequest("runtime acp: an external agent works on the host, and this conversation may not.")
        if self._external is None:
            files = files_of_programs(self._state)
            self._external = AcpHarness(self._state / "agents", self._approver, self._variables, files, self._clock)
        name = route.attempt.model.id
        session = AcpSession(
            name=name,
            settings=self._acp.current.agents[name],
            key=turn.key,
            session_id=session_id,
            workspace=str(self._workspaces.of(turn.key.agent)),
        )
        return self._external.turn(session, route)

    @asynccontextmanager
    async def lend(self, key: SessionKey, ref: str) -> AsyncIterator[Attempt]:
        """The model `ref` for calls outside of a run, on the books of the agent of `key`."""
        agent = resolve_agent(self._agents.current, key.agent)
        request = RunRequest(run_id=f"replay-{uuid.uuid4()}", key=key, text="", model=ref)
        meter = self.meter(request.run_id, key)
        try:
            yield (await self.open(request, agent, SessionPreferences(), meter)).attempt
        finally:
            await meter.settle()

    async def look_at(self, agent_id: str, prompt: str, images: Sequence[Image]) -> str:
        """What the image model says about `images`."""
        agents = self._agents.current
        named = image_model(agents)
        if named is None:
            raise InvalidRequest(
                "The current model cannot see images, and agents.defaults.imageModel names no model that can."
            )
        key = SessionKey(agent_id, MAIN)
        request = RunRequest(run_id=f"look-{uuid.uuid4()}", key=key, text=prompt, model=named)
        agent = resolve_agent(agents, agent_id)
        meter = self.meter(request.run_id, key)
        try:
            route = partial(self.open, request, agent, SessionPreferences(), meter)
            question = User(content=(Text(prompt), *images), timestamp=millis(self._clock))
            job = RunJob(system=System(), messages=(question,))
            return (await ModelAsker(route, self._clock).ask(job, NO_TOOLS)).text
        finally:
            await meter.settle()

    async def close(self) -> None:
        if self._external is not None:
            await self._external.close()
        if self._codex is not None:
            await self._codex.close()
