"""Carries out turns with external coding agents: one process for each conversation, one ACP session in it.

The program has its own tools; what it asks permission for is judged as a call of ours would be.
"""

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from openclaw.core.clock import Clock
from openclaw.core.errors import BadRequest, OpenClawError, ProviderError, ProviderTimeout, ServerFailed, Unavailable
from openclaw.core.events import (
    CompactionEnded,
    CompactionStarted,
    Done,
    Event,
    ModelCalled,
    RunEnded,
    Steered,
)
from openclaw.core.harness import MeteredCall, ModelRouter, RunJob, RunTools, Steering
from openclaw.core.keys import SessionKey
from openclaw.core.messages import Assistant, Usage
from openclaw.core.provider import ModelRequest
from openclaw.core.settings import Live
from openclaw.core.text import make_origin
from openclaw.core.tool import ApprovalRequest, Approver, Decision
from openclaw.harnesses.acp.choice import API, PROVIDER
from openclaw.harnesses.acp.history import history_text, prompt_blocks
from openclaw.harnesses.acp.permissions import as_call, choose_option
from openclaw.harnesses.acp.updates import UpdateReader
from openclaw.harnesses.codex.binding import ThreadBinding, ThreadBindings, digest, mark, split_new, unheard
from openclaw.process.environment import find_executable
from openclaw.process.tasks import run_shielded
from openclaw.process.worker import Worker, WorkerSpec
from openclaw.security.external import wrap_external_content
from openclaw.security.file_labels import LabelledFiles
from openclaw.tools.settings import AcpAgentSettings

INSTALL = "External agents need the extra `acp`: install it with: pip install 'openclaw-py[acp]'"
PROGRAMS = {
    "claude-code-acp": "npm install -g @zed-industries/claude-code-acp",
    "codex-acp": "npm install -g @zed-industries/codex-acp",
    "gemini": "npm install -g @google/gemini-cli",
    "opencode": "npm install -g opencode-ai",
}
"""How well-known agents are installed, by their program."""
IDLE_SECONDS = 900.0
LONGEST = 6 * 3600.0
"""The maximum for a run without a limit of its own."""
STOP_SECONDS = 0.6
"""How long a stopped prompt may take to end by itself; then its process is ended."""
OPEN_SECONDS = 120.0
LOOK_SECONDS = 10.0
COMPACT = "compact"
MICROS = "costMicros"
"""What a session has cost so far, in the binding."""


class AcpSession(Struct, frozen=True, kw_only=True):
    """Whose turn it is, and who carries it out."""

    name: str
    settings: AcpAgentSettings
    key: SessionKey
    session_id: str
    workspace: str


class AcpHarness:
    """The external agents of this process, one for each conversation; whoever made it closes it."""

    def __init__(
        self,
        agents_dir: Path,
        approver: Approver,
        variables: Live[Mapping[str, str]],
        files: LabelledFiles,
        clock: Clock,
    ) -> None:
        self._agents_dir = agents_dir
        self.approver = approver
        self.files = files
        self.clock = clock
        self._variables = variables
        self._open: dict[SessionKey, AcpAgent] = {}

    def turn(self, session: AcpSession, route: ModelRouter) -> "AcpTurn":
        """What carries out one turn; raises when it cannot, with the way to install what is missing."""
        if find_spec("acp") is None:
            raise Unavailable(INSTALL)
        find_program(session.name, session.settings.command, self._variables.current, session.workspace)
        return AcpTurn(self, session, route)

    def bindings(self, agent_id: str) -> ThreadBindings:
        return ThreadBindings(self._agents_dir / agent_id / "agent" / "acp")

    async def agent(self, session: AcpSession) -> "AcpAgent":
        """The process of a conversation; the same one while its settings stay the same."""
        known = self._open.get(session.key)
        if known is None or known.is_other(session):
            if known is not None:
                await known.close()
            self._open[session.key] = known = AcpAgent(session, self._variables.current)
        return known

    async def close(self) -> None:
        agents = list(self._open.values())
        self._open.clear()
        await asyncio.gather(*(agent.close() for agent in agents))


def find_program(name: str, command: str, variables: Mapping[str, str], workspace: str) -> str:
    """The program of an agent; raises with the way to install it when it is not there."""
    found = find_executable(command if "/" not in command else str(Path(workspace, command)), variables.get("PATH"))
    if found is None:
        how = PROGRAMS.get(Path(command).name)
        raise Unavailable(
            f"The external agent {name} cannot be started: there is no program {command}. Install it"
            + (f" ({how})" if how else "")
            + f", or correct acp.agents.{name}.command."
        )
    return found


class AcpAgent:
    """The process of one conversation: our side of `worker`."""

    def __init__(self, session: AcpSession, environ: Mapping[str, str]) -> None:
        self._session = session
        role = WorkerSpec(
            name=f"the agent {session.name}",
            module="openclaw.harnesses.acp.worker",
            start_seconds=90.0,
            secrets=tuple(session.settings.env.values()),
        )
        self.worker = Worker(role, self._start, idle=IDLE_SECONDS, environ=environ)

    def is_other(self, session: AcpSession) -> bool:
        """Whether another process is needed for `session`."""
        own = self._session
        return (own.name, own.settings, own.workspace) != (session.name, session.settings, session.workspace)

    def _start(self) -> dict[str, Any]:
        """The fields of the worker's `AcpStart`, with the credentials revealed."""
        how = self._session.settings
        env = {name: value.reveal() for name, value in how.env.items()}
        return {"command": how.command, "args": how.args, "env": env, "cwd": self._session.workspace}

    async def close(self) -> None:
        await self.worker.close()


class _Silent(Struct, frozen=True):
    """The agent has been silent for too long."""


class AcpTurn:
    """A `Harness` for one turn; the agent keeps its own session, and shortens it by itself."""

    def __init__(self, harness: AcpHarness, session: AcpSession, route: ModelRouter) -> None:
        self._harness = harness
        self._session = session
        self._route = route
        self._clock = harness.clock
        self._news: asyncio.Queue[Any] = asyncio.Queue()
        self._agent: AcpAgent | None = None
        self._binding = ThreadBinding(thread_id="", tools="", instructions="")
        self._images = False
        self._resumed = False
        self._wanted = ""
        self._since = 0.0
        self._work: asyncio.Task[Any] | None = None
        self._questions: set[asyncio.Task[None]] = set()
        self._metered: MeteredCall | None = None

    def resume(self, session_id: str) -> None:
        """Begins with a session the agent has from elsewhere, where this conversation has none yet."""
        self._wanted = session_id

    # Running.

    async def run(self, job: RunJob, tools: RunTools, steering: Steering) -> AsyncGenerator[Event, None]:
        model, turns = self._route.attempt.model, 0
        marker = partial(wrap_external_content, source="unknown", include_warning=False)
        reader = UpdateReader(
            model,
            f"acp_{secrets.token_hex(4)}",
            lambda text: marker(text, marker_id=secrets.token_hex(8)),
            now=self._clock.now(),
        )
        # Nobody knows what it has read, so what it asks for is judged as after untrusted text.
        origin = make_origin("external", f"acp agent {self._session.name}")
        tools.heard(Assistant(origins=(origin,)))
        began = await asyncio.to_thread(self._harness.files.now)
        try:
            try:
                blocks = await self._open(job)
                reader.cost = self._binding.total.get(MICROS, 0) / 1e6
                while True:
                    await self._reserve(job, tools)
                    yield ModelCalled(model.provider, model.id, "off")
                    async with aclosing(self._prompt(blocks, tools, reader)) as events:
                        async for event in events:
                            yield event
                    turns += 1
                    self._route.answered()
                    if not steering.waiting:
                        break
                    late = steering.waiting.popleft()
                    tools.heard(late)
                    yield Steered(late)
                    blocks = prompt_blocks((late,), images=self._images)
                    count, known = mark((*job.messages, late))
                    self._binding = structs.replace(self._binding, count=count, known=known)
            except OpenClawError as error:
                failure = error if isinstance(error, ProviderError) else ServerFailed(error.message)
                for event in reader.cut_off():
                    yield event
                yield RunEnded("error", reader.spent, failure.message, failure.reason, turns)
                return
            yield RunEnded("stop", reader.spent, turns=turns)
        finally:
            await run_shielded(self._end(reader))
            # A skill that changed meanwhile is not taken for the owner's edit.
            self._harness.files.ran(began, self._harness.files.now(), (origin,))

    async def _prompt(
        self, blocks: Sequence[Mapping[str, str]], tools: RunTools, reader: UpdateReader
    ) -> AsyncGenerator[Event, None]:
        """One prompt, to the agent's answer to it."""
        agent = self._agent
        assert agent is not None
        agent.worker.heard = self._news.put_nowait
        self._since = self._clock.now()
        body = {"prompt": list(blocks), "session": self._binding.thread_id}
        work = self._work = asyncio.create_task(agent.worker.ask(body, LONGEST), name=f"acp:{self._session.name}")
        work.add_done_callback(lambda _: self._news.put_nowait(None))
        watch = asyncio.create_task(self._watch(), name="acp:watch")
        try:
            while (news := await self._news.get()) is not None:
                self._since = self._clock.now()
                if isinstance(news, _Silent):
                    await self._stop()
                    raise ProviderTimeout(f"The agent {self._session.name} was silent for too long, and was stopped.")
                if not self._binding.begun:
                    self._binding = structs.replace(self._binding, begun=True)
                    await self._keep()
                if "permission" in news:
                    self._questions.add(asyncio.create_task(self._permit(news, tools, reader)))
                    continue
                for event in reader.take(news["update"], self._since):
                    yield event
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
        told = await work
        self._work = None
        for event in reader.finish(told["usage"]):
            yield event
        if told["stopReason"] == "refusal":
            raise BadRequest(f"The agent {self._session.name} refused to go on.")
        if told["stopReason"] == "cancelled":
            raise ServerFailed(f"The agent {self._session.name} stopped the turn by itself.")
        await self._settle(reader)

    # The session.

    async def _open(self, job: RunJob) -> list[dict[str, str]]:
        """Continues the agent's session, or begins one with the history; gives what is asked in it."""
        session = self._session
        agent = self._agent = await self._harness.agent(session)
        bindings = self._harness.bindings(session.key.agent)
        known = await asyncio.to_thread(bindings.get, session.session_id)
        same = digest([session.name, session.settings.command, list(session.settings.args)])
        asked = None
        if known is not None and known.tools == same:
            asked = unheard(known, job.messages, API, session.name)
        first = known is None and bool(self._wanted)
        wanted = known.thread_id if known is not None and asked is not None else self._wanted if first else ""
        opened = await agent.worker.ask({"open": wanted, "must": first}, OPEN_SECONDS)
        self._images = opened["images"]
        count, told = mark(job.messages)
        self._resumed = bool(opened["resumed"])
        self._binding = ThreadBinding(
            thread_id=opened["session"],
            tools=same,
            instructions="",
            count=count,
            known=told,
            total=known.total if known is not None and self._resumed else {},
        )
        await self._keep()
        history, late = split_new(job.messages)
        if self._resumed and asked is not None:
            return prompt_blocks(asked, images=self._images)
        before = "" if self._resumed else history_text(history)
        return [*([{"text": before}] if before else ()), *prompt_blocks(late, images=self._images)]

    async def _keep(self) -> None:
        bindings = self._harness.bindings(self._session.key.agent)
        await asyncio.to_thread(bindings.put, self._session.session_id, self._binding)

    # Permissions.

    async def _permit(self, news: Mapping[str, Any], tools: RunTools, reader: UpdateReader) -> None:
        """Judges what the agent asks for, as a call of our own tools where it is one, and answers it."""
        about = {**reader.about(str(news["about"].get("toolCallId") or "")), **news["about"]}
        call = as_call(about, self._session.workspace)
        decision: Decision
        if call is not None:
            decision = "allow-once" if await tools.admit(call) is None else "deny"
        else:
            decision = await self._ask_person(about, news["options"])
        assert self._agent is not None
        with suppress(OpenClawError):
            answer = {"permission": news["permission"], "option": choose_option(news["options"], decision)}
            await self._agent.worker.tell(answer)

    async def _ask_person(self, about: Mapping[str, Any], options: Sequence[Mapping[str, str]]) -> Decision:
        session, raw = self._session, about.get("rawInput")
        title = about.get("title") or about.get("kind") or "something"
        answer = await self._harness.approver.decide(
            ApprovalRequest(
                id=secrets.token_hex(4),
                tool=f"{PROVIDER}:{session.name}",
                command=f"{title} {json.dumps(raw, ensure_ascii=False)}" if raw is not None else title,
                cwd=session.workspace,
                agent_id=session.key.agent,
                session_key=str(session.key),
                why=f"the external agent {session.name} asks for permission",
                standing=any(each["kind"] == "allow_always" for each in options),
            )
        )
        return answer.decision

    # Stopping and watching.

    async def _watch(self) -> None:
        """Says so when the agent has been silent for longer than is borne; a person may take their time to answer."""
        limit = self._route.attempt.idle_timeout or self._route.attempt.model.timeout_seconds or LONGEST
        while True:
            left = self._since + limit - self._clock.now()
            if left <= 0 and not any(not task.done() for task in self._questions):
                self._news.put_nowait(_Silent())
                return
            await self._clock.sleep(max(min(left, LOOK_SECONDS), 0.1))

    async def _stop(self) -> None:
        """Stops the prompt; an agent that does not obey in time is ended with all it started."""
        agent, work = self._agent, self._work
        if agent is None or work is None:
            return
        self._work = None
        if not work.done():
            with suppress(OpenClawError, TimeoutError):
                async with asyncio.timeout(STOP_SECONDS):
                    await agent.worker.tell({"cancel": self._binding.thread_id})
                    await asyncio.wait({work})
        if not work.done():
            work.cancel()
            await agent.worker.stop(patient=False)
        await asyncio.gather(work, return_exceptions=True)

    async def _end(self, reader: UpdateReader) -> None:
        """Leaves nothing running, whatever ended the run."""
        await self._stop()
        for task in self._questions:
            task.cancel()
        await asyncio.gather(*self._questions, return_exceptions=True)
        await self._settle(reader)
        if self._binding.thread_id and reader.cost:
            self._binding = structs.replace(self._binding, total={MICROS: round(reader.cost * 1e6)})
            await self._keep()

    # Cost.

    async def _reserve(self, job: RunJob, tools: RunTools) -> None:
        attempt = self._route.attempt
        if attempt.reserve is not None:
            request = ModelRequest(model=attempt.model, system=job.system, messages=job.messages, tools=tools.specs)
            self._metered = await attempt.reserve(request)
            self._metered.begun = True

    async def _settle(self, reader: UpdateReader) -> None:
        """Books what the agent told of its use."""
        metered, self._metered = self._metered, None
        if metered is None:
            return
        last, reader.last = reader.last, Usage()
        if last != Usage():
            model = self._route.attempt.model
            metered.add(Done(Assistant(content=(), api=API, provider=model.provider, model=model.id, usage=last)))
        await metered.close()

    # Compaction.

    async def compact(self, job: RunJob, tools: RunTools) -> AsyncGenerator[CompactionStarted | CompactionEnded, None]:
        """Has the agent shorten its session now, where it has a command for that."""
        name = self._session.name
        reader = UpdateReader(self._route.attempt.model, "acp", str, now=self._clock.now())
        try:
            yield CompactionStarted(reason="manual", tokens=0)
            await self._open(job)
            assert self._agent is not None
            if not self._resumed:
                raise BadRequest(f"the agent {name} begins anew with the next message: there is nothing to shorten")
            there = await self._agent.worker.ask({"commands": self._binding.thread_id}, OPEN_SECONDS)
            if COMPACT not in there["commands"]:
                raise BadRequest(f"the agent {name} keeps its own context, and has no command to shorten it: /new")
            await self._reserve(job, tools)
            async with aclosing(self._prompt([{"text": f"/{COMPACT}"}], tools, reader)) as events:
                async for _ in events:
                    pass
            yield CompactionEnded(reason="manual", ok=True, usage=reader.spent)
        except OpenClawError as error:
            yield CompactionEnded(reason="manual", ok=False, error=error.message)
        finally:
            await run_shielded(self._end(reader))
