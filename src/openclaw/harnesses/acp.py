"""External coding agents (ACP) as model providers: their answers come from a program on this machine.

The program has its own tools; when it asks for permission, the owner is asked as for one of our commands.
"""

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from typing import Any

from msgspec import Struct

from openclaw.core.errors import BadRequest, InvalidRequest, OpenClawError, Unavailable
from openclaw.core.events import Done, ModelEvent, TextDelta, ThinkingDelta
from openclaw.core.keys import SessionKey
from openclaw.core.messages import Assistant, Text, User
from openclaw.core.provider import Endpoint, ModelRequest, Price, Provider
from openclaw.core.secret import Secret
from openclaw.core.settings import Live
from openclaw.core.text import make_origin
from openclaw.core.tool import ApprovalRequest, Approver, Decision
from openclaw.models.model_set import ModelSet, build_model_set
from openclaw.models.profiles import Profiles
from openclaw.models.registry import ModelCatalog
from openclaw.models.settings import AuthSettings, ModelEntry, ModelsSettings, ProviderSettings
from openclaw.process.worker import Worker, WorkerSpec
from openclaw.security.file_labels import LabelledFiles
from openclaw.tools.settings import AcpAgentSettings, AcpSettings

INSTALL = "External agents need the extra `acp`: install it with: pip install 'openclaw-py[acp]'"
IDLE_SECONDS = 900.0
LONGEST = 6 * 3600.0
"""The maximum for a run without a limit of its own."""
_KINDS: dict[Decision, tuple[str, ...]] = {
    "allow-once": ("allow_once",),
    "allow-always": ("allow_always", "allow_once"),
    "deny": ("reject_once", "reject_always"),
}


# Agents as providers.


class AcpAgentSpec(Struct, frozen=True, kw_only=True):
    """One external agent, for one conversation."""

    name: str
    settings: AcpAgentSettings
    key: SessionKey
    workspace: str


class AcpAgent:
    """A `Provider`: sends the last message to the program and streams what it answers."""

    def __init__(
        self, spec: AcpAgentSpec, approver: Approver, environ: Mapping[str, str], files: LabelledFiles
    ) -> None:
        self.spec = spec
        self._files = files
        self._approver = approver
        role = WorkerSpec(
            name=f"the agent {spec.name}",
            module="openclaw.harnesses.acp_worker",
            start_seconds=90.0,
            secrets=tuple(spec.settings.env.values()),
        )
        self._helper = Worker(role, self._start, idle=IDLE_SECONDS, environ=environ)

    def _start(self) -> dict[str, Any]:
        """The fields of the worker's `AcpStart`, with the credentials revealed."""
        if find_spec("acp") is None:
            raise Unavailable(INSTALL)
        how = self.spec.settings
        env = {name: value.reveal() for name, value in how.env.items()}
        return {"command": how.command, "args": how.args, "env": env, "cwd": self.spec.workspace}

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        asked = next((message.text for message in reversed(request.messages) if isinstance(message, User)), "")
        queue: asyncio.Queue[Mapping[str, Any] | None] = asyncio.Queue()
        self._helper.heard = queue.put_nowait
        work = asyncio.create_task(self._helper.ask({"prompt": asked}, LONGEST), name=f"acp:{self.spec.name}")
        work.add_done_callback(lambda _: queue.put_nowait(None))
        questions: set[asyncio.Task[None]] = set()
        said: list[str] = []
        began = await asyncio.to_thread(self._files.now)
        try:
            while (news := await queue.get()) is not None:
                if "said" in news:
                    said.append(news["said"])
                    yield TextDelta(news["said"])
                elif "thought" in news:
                    yield ThinkingDelta(news["thought"])
                elif "tool" in news:
                    yield ThinkingDelta(f"\n[{news['tool']}]\n")
                elif "permission" in news:
                    questions.add(asyncio.create_task(self._permit(news)))
            try:
                await work
            except OpenClawError as error:
                raise BadRequest(error.message) from error
        finally:
            for task in (work, *questions):
                task.cancel()
            await asyncio.gather(work, *questions, return_exceptions=True)
            # Nobody knows what it has read: a skill that changed meanwhile is not taken for the owner's edit.
            self._files.ran(began, self._files.now(), (make_origin("external", f"acp agent {self.spec.name}"),))
        model = request.model
        answer = Assistant(
            content=(Text("".join(said) or "(it said nothing)"),),
            api=model.api,
            provider=model.provider,
            model=model.id,
            stop_reason="stop",
        )
        yield Done(answer)

    async def close(self) -> None:
        return None

    async def end(self) -> None:
        await self._helper.close()

    async def _permit(self, news: Mapping[str, Any]) -> None:
        about = news["about"]
        title = about.get("title") or about.get("kind") or "something"
        raw = about.get("raw_input")
        answer = await self._approver.decide(
            ApprovalRequest(
                id=secrets.token_hex(4),
                tool=f"acp:{self.spec.name}",
                command=f"{title} {json.dumps(raw, ensure_ascii=False)}" if raw is not None else title,
                cwd=self.spec.workspace,
                agent_id=self.spec.key.agent,
                session_key=str(self.spec.key),
                why=f"the external agent {self.spec.name} asks for permission",
                standing=any(each["kind"] == "allow_always" for each in news["options"]),
            )
        )
        by_kind = {each["kind"]: each["id"] for each in news["options"]}
        chosen = next((by_kind[kind] for kind in _KINDS[answer.decision] if kind in by_kind), None)
        with suppress(OpenClawError):
            await self._helper.tell({"permission": news["permission"], "option": chosen})


# The harness.

PROVIDER = "acp"
SILENCE = 3_600.0
"""It works on its own and may be silent for long."""


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


class AcpHarness:
    """The external agents of this process, one for each conversation; whoever made it closes it."""

    def __init__(self, approver: Approver, variables: Live[Mapping[str, str]], files: LabelledFiles) -> None:
        self._approver = approver
        self._files = files
        self._variables = variables
        self._open: dict[SessionKey, AcpAgent] = {}

    def open(self, settings: AcpSettings, ref: str, key: SessionKey, workspace: str) -> Callable[[Endpoint], Provider]:
        """What answers a turn."""
        name = choose_agent(settings, ref.partition("/")[2])
        return partial(
            self._agent, AcpAgentSpec(name=name, settings=settings.agents[name], key=key, workspace=workspace)
        )

    def _agent(self, spec: AcpAgentSpec, endpoint: Endpoint) -> AcpAgent:
        """The provider for a conversation; the same one while its settings stay the same."""
        known = self._open.get(spec.key)
        if known is None or known.spec != spec:
            self._open[spec.key] = known = AcpAgent(spec, self._approver, self._variables.current, self._files)
        return known

    async def close(self) -> None:
        agents = list(self._open.values())
        self._open.clear()
        await asyncio.gather(*(agent.end() for agent in agents))


def acp_model_set(settings: AcpSettings, ref: str) -> ModelSet:
    """The models in a conversation with an external agent: only the agent."""
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
