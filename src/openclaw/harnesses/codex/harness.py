"""Carries out turns with `codex app-server`: one process for each agent and credential, one thread for each session."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from openclaw.core.clock import Clock
from openclaw.core.errors import (
    BadResponse,
    InvalidRequest,
    OpenClawError,
    OverBudget,
    ProviderError,
    ProviderTimeout,
    ServerFailed,
    Unavailable,
)
from openclaw.core.events import (
    CompactionEnded,
    CompactionStarted,
    Done,
    Event,
    MessageEnded,
    ModelCalled,
    RunEnded,
    Steered,
    ToolEnded,
    ToolStarted,
    ToolUpdated,
)
from openclaw.core.harness import MeteredCall, ModelRouter, RunJob, RunTools, Steering
from openclaw.core.messages import AskedQuestion, Assistant, Image, Text, ToolCall, ToolResult, Usage, User
from openclaw.core.provider import ModelRequest
from openclaw.core.settings import Live
from openclaw.harnesses.codex.binding import (
    API,
    ThreadBinding,
    ThreadBindings,
    digest,
    mark,
    split_new,
    unheard,
)
from openclaw.harnesses.codex.frames import TurnReader, turn_error
from openclaw.harnesses.codex.liveness import TurnProgress, patience
from openclaw.harnesses.codex.routing import (
    CodexLayers,
    history_items,
    input_of,
    thread_params,
    tools_to_json,
    turn_params,
)
from openclaw.harnesses.codex.server import CodexLaunch, CodexRefused, CodexServer, Frame, find_program
from openclaw.process.tasks import run_shielded

APIS = ("openai-responses",)
INTERRUPT_SECONDS = 0.6
"""How long a stopped turn may take to end by itself; then its process is ended."""
GIVE_UP_SECONDS = 5.0
LOOK_SECONDS = 10.0
"""How often a silent turn is looked at: the shortest patience there is."""
STEER_SECONDS = 5.0
LOOPS_ALLOWED = 1
_DECLINED: Mapping[str, Mapping[str, Any]] = {
    "item/commandExecution/requestApproval": {"decision": "decline"},
    "item/fileChange/requestApproval": {"decision": "decline"},
    "item/permissions/requestApproval": {"permissions": {}, "scope": "turn"},
    "item/tool/requestUserInput": {"answers": {}},
}
"""What Codex would do by itself is declined: our own tools do it, under our policy."""


class CodexSession(Struct, frozen=True, kw_only=True):
    """Whose turn it is."""

    agent_id: str
    session_id: str
    workspace: str
    layers: CodexLayers


class CodexHarness:
    """The Codex processes of this gateway, started at first use; whoever made it closes it."""

    def __init__(self, agents_dir: Path, variables: Live[Mapping[str, str]], clock: Clock) -> None:
        self._agents_dir = agents_dir
        self._variables = variables
        self.clock = clock
        self._servers: dict[tuple[Any, ...], CodexServer] = {}

    def turn(self, session: CodexSession, route: ModelRouter) -> "CodexTurn":
        """What carries out one turn; raises when it cannot: the program is missing, or the model speaks another API."""
        model = route.attempt.model
        if model.api not in APIS:
            raise InvalidRequest(
                f"The runtime codex asks models over the Responses API, and {model.ref} speaks {model.api}: choose "
                "another model, or agentRuntime.id openclaw."
            )
        return CodexTurn(self, session, route, find_program(self._variables.current))

    def bindings(self, agent_id: str) -> ThreadBindings:
        return ThreadBindings(self._home(agent_id) / "openclaw-threads")

    def _home(self, agent_id: str) -> Path:
        return self._agents_dir / agent_id / "agent" / "codex"

    async def server(self, agent_id: str, program: str, route: ModelRouter) -> CodexServer:
        """The process that asks this agent's models, running."""
        endpoint = route.attempt.endpoint
        assert endpoint is not None
        key = endpoint.key.reveal() if endpoint.key is not None else ""
        name = (agent_id, program, endpoint.base_url, digest([key, dict(endpoint.headers)]))
        for other, stale in [*self._servers.items()]:
            if other[0] == agent_id and other != name and stale.idle:
                del self._servers[other]
                await stale.close()
        server = self._servers.get(name)
        if server is None:
            launch = CodexLaunch(program, self._home(agent_id), endpoint)
            server = self._servers[name] = CodexServer(launch, self._variables.current)
        await server.ready()
        return server

    async def close(self) -> None:
        servers = [*self._servers.values()]
        self._servers.clear()
        await asyncio.gather(*(server.close() for server in servers))


class _ToolsDone(Struct, frozen=True):
    """The calls of one reply are answered."""


class _Silent(Struct, frozen=True):
    """The turn has been silent for too long."""


_STEER = object()


class CodexTurn:
    """A `Harness` for one turn; Codex shortens its thread by itself."""

    def __init__(self, harness: CodexHarness, session: CodexSession, route: ModelRouter, program: str) -> None:
        self._harness = harness
        self._session = session
        self._route = route
        self._program = program
        self._clock = harness.clock
        self._news: asyncio.Queue[Any] = asyncio.Queue()
        self._server: CodexServer | None = None
        self._binding = ThreadBinding(thread_id="", tools="", instructions="")
        self._turn_id = ""
        self._started = False
        self._metered: MeteredCall | None = None
        self._booked = Usage()
        self._asks: list[AskedQuestion] = []

    # Running.

    async def run(self, job: RunJob, tools: RunTools, steering: Steering) -> AsyncGenerator[Event, None]:
        attempt = self._route.attempt
        model, turns = attempt.model, 0
        reader = TurnReader(model, {}, TurnProgress(since=self._clock.now()))
        steering.added = self._tell_steering
        try:
            try:
                asked = await self._thread(job, tools)
                reader.total = dict(self._binding.total)
                while True:
                    await self._reserve(job, tools)
                    yield ModelCalled(model.provider, model.id, attempt.thinking)
                    await self._begin(job, asked)
                    async with aclosing(self._turn(job, tools, steering, reader)) as events:
                        async for event in events:
                            yield event
                    turns += 1
                    self._route.answered()
                    if tools.ended or not steering.waiting:
                        break
                    late = steering.waiting.popleft()
                    tools.heard(late)
                    yield Steered(late)
                    asked = (late,)
            except ProviderError as error:
                yield RunEnded("error", reader.spent, error.message, error.reason, turns)
                return
            except Unavailable as error:
                failure = ServerFailed(error.message)
                yield RunEnded("error", reader.spent, failure.message, failure.reason, turns)
                return
            plain = not tools.ended or tools.yielded or self._asks
            yield RunEnded("stop" if plain else "toolUse", reader.spent, turns=turns, yielded=tools.yielded)
        finally:
            steering.added = None
            await run_shielded(self._end(reader))

    def _tell_steering(self) -> None:
        self._news.put_nowait(_STEER)

    async def _turn(
        self, job: RunJob, tools: RunTools, steering: Steering, reader: TurnReader
    ) -> AsyncGenerator[Event, None]:
        """One turn of the thread, to its last frame."""
        server, sent = self._server, dict[str, User]()
        assert server is not None
        progress = reader.progress
        progress.since, progress.answered, progress.acted = self._clock.now(), False, False
        calls: list[Frame] = []
        acting: asyncio.Task[None] | None = None
        watch = asyncio.create_task(self._watch(progress), name="codex:watch")
        model = self._route.attempt.model
        try:
            while True:
                news = await self._news.get()
                match news:
                    case None:
                        raise ServerFailed("codex app-server has ended in the middle of the turn: ask again to go on.")
                    case _Silent():
                        await self._interrupt(GIVE_UP_SECONDS)
                        if not reader.said:
                            raise ProviderTimeout(f"{model.ref} made no progress for too long, and was stopped.")
                        yield reader.message(())
                        return
                    case _ToolsDone():
                        acting, progress.asks_us, progress.acted = None, False, True
                        progress.since, progress.answered = self._clock.now(), False
                        if tools.loops > LOOPS_ALLOWED or tools.persisted:
                            raise BadResponse("stopped: the model kept repeating calls that bring nothing new")
                        if tools.ended:
                            await self._interrupt(GIVE_UP_SECONDS)
                            for event in self._question(reader):
                                yield event
                            return
                        yield ModelCalled(model.provider, model.id, self._route.attempt.thinking)
                    case Frame(method="item/tool/call"):
                        calls.append(news)
                    case Frame(id=number) if number is not None:
                        await server.answer(news, _DECLINED.get(news.method, {"decision": "decline"}))
                    case Frame():
                        if news.method == "turn/started":
                            self._started = True
                            await self._steer(steering, sent)
                        if news.method == "turn/completed" and news.params["turn"]["id"] == self._turn_id:
                            self._turn_id = ""
                            ended = news.params["turn"]
                            for event in self._finished(ended, reader):
                                yield event
                            return
                        for event in reader.take(news.method, news.params, self._clock.now()):
                            yield event
                        taken = self._taken(news, sent)
                        if taken is not None:
                            with suppress(ValueError):
                                steering.waiting.remove(taken)
                            tools.heard(taken)
                            if reader.said:
                                yield reader.message(())
                            yield Steered(taken)
                        await self._meter(job, tools, reader, news)
                    case ToolStarted() | ToolUpdated() | ToolEnded():
                        yield news
                        if isinstance(news, ToolEnded) and news.result.asks is not None:
                            self._asks.append(news.result.asks)
                    case _ if news is _STEER:
                        await self._steer(steering, sent)
                if acting is None and self._news.empty():
                    for event in reader.native():
                        yield event
                    if calls:
                        batch, calls = calls, []
                        asked = [_call(frame) for frame in batch]
                        progress.asks_us = True
                        yield reader.message(asked)
                        acting = asyncio.create_task(self._act(batch, asked, tools), name="codex:tools")
        finally:
            watch.cancel()
            tasks = [watch] if acting is None else [watch, acting]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _finished(self, ended: Mapping[str, Any], reader: TurnReader) -> list[Event]:
        """The last events of a turn; raises when it failed."""
        if ended["status"] == "failed":
            raise reader.failure or turn_error(ended.get("error"))
        if ended["status"] == "interrupted":
            raise ServerFailed("Codex stopped the turn by itself.")
        last: list[Event] = [*reader.native()]
        return [*last, reader.message(())] if reader.said else last

    def _question(self, reader: TurnReader) -> list[Event]:
        """What the tools ask the person, as a message; the turn ends with it."""
        if not self._asks:
            return []
        first = self._asks[0]
        whole = first if len(self._asks) == 1 else AskedQuestion(first.id, "\n\n".join(e.text for e in self._asks))
        said = reader.message(()).message
        return [MessageEnded(structs.replace(said, content=(*said.content, Text(whole.text)), asks=whole))]

    @staticmethod
    def _taken(frame: Frame, sent: Mapping[str, User]) -> User | None:
        """The message of a person that the thread has just taken up."""
        item = frame.params.get("item") or {}
        if frame.method != "item/completed" or item.get("type") != "userMessage":
            return None
        return sent.get(item.get("clientId") or "")

    # Tools.

    async def _act(self, batch: Sequence[Frame], calls: Sequence[ToolCall], tools: RunTools) -> None:
        """Runs the calls of one reply through our tools, and answers each as soon as it is done."""
        frames = {call.id: frame for call, frame in zip(calls, batch, strict=True)}
        assert self._server is not None
        async with aclosing(tools.run_all(calls)) as events:
            async for event in events:
                self._news.put_nowait(event)
                if isinstance(event, ToolEnded):
                    await self._server.answer(frames[event.call.id], result_to_json(event.result))
        self._news.put_nowait(_ToolsDone())

    # The thread.

    async def _thread(self, job: RunJob, tools: RunTools) -> tuple[User, ...]:
        """The thread of this session, resumed or begun with the history; gives what it was not told yet."""
        session, model = self._session, self._route.attempt.model
        server = self._server = await self._harness.server(session.agent_id, self._program, self._route)
        bindings = self._harness.bindings(session.agent_id)
        known = await asyncio.to_thread(bindings.get, session.session_id)
        tools_now, instructions = digest(tools_to_json(tools.specs)), instructions_digest(session.layers)
        if known is not None and (known.tools, known.instructions) == (tools_now, instructions):
            asked = unheard(known, job.messages)
            if asked is not None and await self._resumed(server, known.thread_id):
                self._binding = known
                server.listen(known.thread_id, self._news)
                return asked
        history, asked = split_new(job.messages)
        params = thread_params(session.layers, tools.specs, model=model.id, workspace=session.workspace)
        begun = await server.request("thread/start", params)
        thread_id = begun["thread"]["id"]
        server.loaded.add(thread_id)
        self._binding = ThreadBinding(
            thread_id=thread_id, tools=tools_now, instructions=instructions, version=server.version
        )
        server.listen(thread_id, self._news)
        if items := history_items(history):
            await server.request("thread/inject_items", {"threadId": thread_id, "items": items})
        return asked

    async def _resumed(self, server: CodexServer, thread_id: str) -> bool:
        if thread_id in server.loaded:
            return True
        try:
            await server.request("thread/resume", {"threadId": thread_id, "excludeTurns": True})
        except CodexRefused:
            return False
        server.loaded.add(thread_id)
        return True

    async def _begin(self, job: RunJob, asked: Sequence[User]) -> None:
        """Starts a turn; the binding says so first, so that a crash in between is noticed."""
        server, model = self._server, self._route.attempt.model
        assert server is not None
        count, known = mark(job.messages)
        self._binding = structs.replace(self._binding, count=count, known=known, begun=False)
        await self._keep()
        self._started = False
        params = turn_params(
            self._session.layers,
            self._binding.thread_id,
            asked,
            model=model.id,
            thinking=self._route.attempt.thinking,
        )
        accepted = await server.request("turn/start", params)
        self._turn_id = accepted["turn"]["id"]
        self._binding = structs.replace(self._binding, begun=True)
        await self._keep()

    async def _keep(self) -> None:
        bindings = self._harness.bindings(self._session.agent_id)
        await asyncio.to_thread(bindings.put, self._session.session_id, self._binding)

    # Steering, stopping, watching.

    async def _steer(self, steering: Steering, sent: dict[str, User]) -> None:
        """Passes on what people added; a message that is refused waits for the next turn."""
        server = self._server
        assert server is not None
        if not self._started or not self._turn_id:
            return
        for message in [each for each in steering.waiting if each not in sent.values()]:
            number = f"steer-{len(sent) + 1}"
            sent[number] = message
            asked = {
                "threadId": self._binding.thread_id,
                "expectedTurnId": self._turn_id,
                "input": input_of(message),
                "clientUserMessageId": number,
            }
            with suppress(CodexRefused):
                await server.request("turn/steer", asked, STEER_SECONDS)

    async def _interrupt(self, seconds: float) -> None:
        """Stops the turn; a server that does not obey in time is ended."""
        server, turn_id = self._server, self._turn_id
        if server is None or not turn_id:
            return
        asked = {"threadId": self._binding.thread_id, "turnId": turn_id}
        try:
            async with asyncio.timeout(seconds):
                while not self._started:  # before that it would be refused, and the turn would run to its end
                    self._note(await self._news.get())
                await server.request("turn/interrupt", asked, seconds)
                while self._turn_id:
                    self._note(await self._news.get())
        except (TimeoutError, OpenClawError):
            await server.close()
        self._turn_id = ""

    def _note(self, news: Any) -> None:
        if news is None:
            raise Unavailable("codex app-server has ended.")
        if isinstance(news, Frame):
            self._started = self._started or news.method == "turn/started"
            if news.method == "turn/completed":
                self._started, self._turn_id = True, ""

    async def _watch(self, progress: TurnProgress) -> None:
        """Says so when the turn has been silent for longer than is borne."""
        least = self._route.attempt.model.timeout_seconds or 0.0
        while True:
            limit = patience(progress, least)
            left = LOOK_SECONDS if limit is None else progress.since + limit - self._clock.now()
            if left <= 0:
                self._news.put_nowait(_Silent())
                return
            await self._clock.sleep(min(left, LOOK_SECONDS))

    async def _end(self, reader: TurnReader) -> None:
        """Leaves nothing running, whatever ended the run."""
        await self._interrupt(INTERRUPT_SECONDS)
        server = self._server
        if self._metered is not None:
            self._settle(reader)
            await self._close_metered()
        if server is not None and self._binding.thread_id:
            server.forget(self._binding.thread_id)
            self._binding = structs.replace(self._binding, total=reader.total)
            await self._keep()

    # Cost.

    async def _reserve(self, job: RunJob, tools: RunTools) -> None:
        attempt = self._route.attempt
        if attempt.reserve is None:
            return
        request = ModelRequest(
            model=attempt.model, system=job.system, messages=job.messages, tools=tools.specs, thinking=attempt.thinking
        )
        self._metered = await attempt.reserve(request)
        self._metered.begun = True

    async def _meter(self, job: RunJob, tools: RunTools, reader: TurnReader, frame: Frame) -> None:
        """Books each answer of the model as it is counted, and reserves the next; over the limit the turn stops."""
        if frame.method == "thread/tokenUsage/updated" and self._metered is not None:
            self._settle(reader)
            await self._close_metered()
        elif self._metered is None and frame.method == "item/started":
            try:
                await self._reserve(job, tools)
            except OverBudget:
                await self._interrupt(GIVE_UP_SECONDS)
                raise

    def _settle(self, reader: TurnReader) -> None:
        used = reader.spent
        booked, self._booked = self._booked, used
        fresh = usage_less(used, booked)
        if self._metered is not None and fresh.total_tokens:
            model = self._route.attempt.model
            said = Assistant(content=(), api=API, provider=model.provider, model=model.id, usage=fresh)
            self._metered.add(Done(said))

    async def _close_metered(self) -> None:
        metered, self._metered = self._metered, None
        if metered is not None:
            await metered.close()

    # Compaction.

    async def compact(self, job: RunJob, tools: RunTools) -> AsyncGenerator[CompactionStarted | CompactionEnded, None]:
        """Has Codex shorten its thread now."""
        reader = TurnReader(self._route.attempt.model, {}, TurnProgress(since=self._clock.now()))
        before = 0
        try:
            await self._thread(job, tools)
            reader.total = dict(self._binding.total)
            before = reader.total.get("totalTokens", 0)
            yield CompactionStarted(reason="manual", tokens=before)
            await self._reserve(job, tools)
            count, known = mark(job.messages)
            assert self._server is not None
            await self._server.request("thread/compact/start", {"threadId": self._binding.thread_id})
            ended = None
            while ended is None:
                news = await self._news.get()
                if news is None:
                    raise ServerFailed("codex app-server has ended.")
                if isinstance(news, Frame) and news.method == "turn/completed":
                    ended = news.params["turn"]
                elif isinstance(news, Frame) and news.id is None:
                    if news.method == "turn/started":
                        self._turn_id, self._started = news.params["turn"]["id"], True
                    for _ in reader.take(news.method, news.params, self._clock.now()):
                        pass
            self._turn_id = ""
            if ended["status"] != "completed":
                raise reader.failure or turn_error(ended.get("error"))
            self._binding = structs.replace(self._binding, count=count, known=known, begun=True)
            yield CompactionEnded(reason="manual", ok=True, tokens_before=before, usage=reader.spent)
        except OpenClawError as error:
            yield CompactionEnded(reason="manual", ok=False, tokens_before=before, error=error.message)
        finally:
            await run_shielded(self._end(reader))


def usage_less(usage: Usage, booked: Usage) -> Usage:
    """What of `usage` was not booked yet; its price is looked up again."""
    names = ("input", "output", "cache_read", "cache_write", "total_tokens")
    return Usage(**{name: getattr(usage, name) - getattr(booked, name) for name in names})


def instructions_digest(layers: CodexLayers) -> str:
    """Of everything that only a new thread takes over."""
    return digest([layers.developer, layers.agents_file, layers.native])


def _call(frame: Frame) -> ToolCall:
    arguments = frame.params.get("arguments")
    return ToolCall(
        id=frame.params["callId"],
        name=frame.params["tool"],
        arguments=arguments if isinstance(arguments, dict) else {},
        broken=None if isinstance(arguments, dict) else str(arguments)[:2000],
    )


def result_to_json(result: ToolResult) -> dict[str, Any]:
    """The result of a tool as Codex takes it."""
    items = [
        {"type": "inputImage", "imageUrl": f"data:{part.mime_type};base64,{part.data}"}
        if isinstance(part, Image)
        else {"type": "inputText", "text": part.text}
        for part in result.content
        if isinstance(part, Text | Image)
    ]
    return {"contentItems": items, "success": not result.is_error}
