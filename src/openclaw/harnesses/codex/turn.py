"""One turn of a session, carried out by a Codex thread: asked, followed, steered, stopped, asked again elsewhere."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from openclaw.core.errors import (
    BadResponse,
    ModelNotFound,
    OpenClawError,
    OverBudget,
    ProviderError,
    ProviderTimeout,
    ServerFailed,
    Unavailable,
)
from openclaw.core.events import (
    AttemptFailed,
    CompactionEnded,
    CompactionStarted,
    Event,
    MessageEnded,
    ModelCalled,
    RunEnded,
    Steered,
    ToolEnded,
    ToolStarted,
    ToolUpdated,
)
from openclaw.core.harness import ModelRouter, RunJob, RunTools, Steering
from openclaw.core.messages import AskedQuestion, Text, ToolCall, ToolResult, User
from openclaw.harnesses.codex.binding import ThreadBinding, digest, mark, split_new, unheard
from openclaw.harnesses.codex.frames import TurnReader, turn_error
from openclaw.harnesses.codex.liveness import TurnProgress, patience
from openclaw.harnesses.codex.metering import TurnMeter
from openclaw.harnesses.codex.native import (
    QUESTION,
    REFUSALS,
    TYPED,
    TYPED_UNASKED,
    NativeCalls,
    dynamic_call,
    native_call,
    result_to_json,
)
from openclaw.harnesses.codex.routing import (
    CodexSession,
    binding_for,
    dynamic_tools,
    given_before,
    history_items,
    input_of,
    thread_params,
    turn_params,
)
from openclaw.harnesses.codex.server import CodexRefused, CodexServer, Frame
from openclaw.process.tasks import run_shielded

if TYPE_CHECKING:
    from openclaw.harnesses.codex.harness import CodexHarness

APIS = ("openai-responses",)
INTERRUPT_SECONDS = 0.6
"""How long a stopped turn may take to end by itself; then its process is ended."""
GIVE_UP_SECONDS = 5.0
LOOK_SECONDS = 10.0
"""How often a silent turn is looked at: the shortest patience there is."""
STEER_SECONDS = 5.0
LOOPS_ALLOWED = 1
DIED = "codex app-server has ended in the middle of the turn: ask again to go on."


class TurnEndedEarly(ServerFailed):
    """A turn that cannot be asked again in this run."""


class _Repeats(BadResponse):
    """The model goes in circles."""


class _ToolsDone(Struct, frozen=True):
    """The calls of one reply are answered."""


class _Silent(Struct, frozen=True):
    """The turn has been silent for too long."""


_STEER = object()


class CodexTurn:
    """A `Harness` for one turn; Codex shortens its thread by itself."""

    def __init__(self, harness: "CodexHarness", session: CodexSession, route: ModelRouter, program: str) -> None:
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
        self._told = False
        """Whether the thread knows what is asked."""
        self._meter = TurnMeter(route)
        self._asks: list[AskedQuestion] = []
        self._sent: dict[str, User] = {}
        self._native = NativeCalls(self._answer)
        self._late: tuple[User, ...] = ()

    # Running.

    async def run(self, job: RunJob, tools: RunTools, steering: Steering) -> AsyncGenerator[Event, None]:
        turns = 0
        reader = TurnReader(self._route.attempt.model, {}, TurnProgress(since=self._clock.now()))
        steering.added = self._tell_steering
        try:
            try:
                while True:
                    async with aclosing(self._ask(job, tools, steering, reader)) as events:
                        async for event in events:
                            yield event
                    turns += 1
                    if tools.ended or not steering.waiting:
                        break
                    late = steering.waiting.popleft()
                    tools.heard(late)
                    yield Steered(late)
                    self._late, self._told = (late,), False
            except ProviderError as error:
                yield RunEnded("error", reader.spent, self._route.verdict(error), error.reason, turns)
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

    async def _ask(
        self, job: RunJob, tools: RunTools, steering: Steering, reader: TurnReader
    ) -> AsyncGenerator[Event, None]:
        """One turn of the thread, asked again by the rules of failover until it is answered."""
        while True:
            attempt = self._route.attempt
            model = reader.model = attempt.model
            try:
                await self._meter.reserve(job, tools)
                yield ModelCalled(model.provider, model.id, attempt.thinking)
                await self._begin(job, tools, reader)
                async with aclosing(self._turn(job, tools, steering, reader)) as events:
                    async for event in events:
                        yield event
                self._route.answered()
                return
            except (TurnEndedEarly, _Repeats):
                raise
            except ProviderError as error:
                wait = await self._fail(error, reader)
                if wait is None:
                    raise
                failure = AttemptFailed(model.provider, model.id, error.reason, error.message, wait)
            if reader.said:
                yield reader.message(())
            reader.begin_again()
            yield failure
            await self._clock.sleep(failure.wait)

    async def _fail(self, error: ProviderError, reader: TurnReader) -> float | None:
        """Seconds until the thread is asked again, perhaps by another model; None to give up."""
        await self._meter.settle(reader.spent, error)
        if isinstance(error, ProviderTimeout) and reader.acted:
            return None
        wait = self._route.failed(error)
        while wait is not None and (other := self._route.attempt.model).api not in APIS:
            wait = self._route.failed(ModelNotFound(f"{other.ref} speaks {other.api}, which the runtime codex cannot."))
        return wait

    def _tell_steering(self) -> None:
        self._news.put_nowait(_STEER)

    async def _turn(
        self, job: RunJob, tools: RunTools, steering: Steering, reader: TurnReader
    ) -> AsyncGenerator[Event, None]:
        """One turn of the thread, to its last frame."""
        progress, native, model = reader.progress, self._native, self._route.attempt.model
        progress.since, progress.answered, progress.acted = self._clock.now(), False, False
        calls: list[tuple[Frame, ToolCall]] = []
        held: deque[Frame] = deque()
        acting: asyncio.Task[None] | None = None
        watch = asyncio.create_task(self._watch(progress), name="codex:watch")
        try:
            while True:
                if held and acting is None:
                    news: Any = held.popleft()
                else:
                    news = await self._news.get()
                    if isinstance(news, Frame) and news.id is None:
                        native.note(news)
                        # What Codex did itself is on record before what it says next.
                        if acting is not None and native.judged:
                            held.append(news)
                            continue
                match news:
                    case None:
                        raise TurnEndedEarly(DIED)
                    case _Silent():
                        await self._interrupt(GIVE_UP_SECONDS, clean=True)
                        if not reader.said:
                            raise ProviderTimeout(f"{model.ref} made no progress for too long, and was stopped.")
                        yield reader.message(())
                        return
                    case _ToolsDone():
                        assert acting is not None
                        await acting
                        acting, progress.asks_us, progress.acted = None, False, True
                        progress.since, progress.answered = self._clock.now(), False
                        if tools.loops > LOOPS_ALLOWED or tools.persisted:
                            raise _Repeats("stopped: the model kept repeating calls that bring nothing new")
                        if tools.ended:
                            await self._interrupt(GIVE_UP_SECONDS)
                            for event in self._question(reader):
                                yield event
                            return
                        if not held:
                            yield ModelCalled(model.provider, model.id, self._route.attempt.thinking)
                    case Frame(id=number) if number is not None:
                        call = (
                            dynamic_call(news) if news.method == "item/tool/call" else native_call(news, native.items)
                        )
                        if call is None:
                            await self._refuse(news)
                        else:
                            calls.append((news, call))
                    case Frame():
                        if news.method == "turn/started":
                            self._started = True
                            await self._steer(steering)
                        if news.method == "turn/completed" and news.params["turn"]["id"] == self._turn_id:
                            self._turn_id = ""
                            for event in self._finished(news.params["turn"], reader, tools):
                                yield event
                            return
                        if news.method == TYPED and news.params.get("stdin") and not self._session.may_type:
                            await self._interrupt(GIVE_UP_SECONDS, clean=True)
                            raise TurnEndedEarly(TYPED_UNASKED)
                        for event in reader.take(news.method, news.params, self._clock.now(), native.judged):
                            yield event
                        taken = self._taken(news)
                        if taken is not None:
                            if reader.said:
                                yield reader.message(())
                            # Nothing is waited for between these: whoever stops the run finds it unheard or on record.
                            with suppress(ValueError):
                                steering.waiting.remove(taken)
                            tools.heard(taken)
                            yield Steered(taken)
                        await self._book(job, tools, reader, news)
                    case ToolStarted() | ToolUpdated() | ToolEnded():
                        yield news
                        if isinstance(news, ToolEnded) and news.result.asks is not None:
                            self._asks.append(news.result.asks)
                    case _ if news is _STEER:
                        await self._steer(steering)
                if acting is None and not held and self._news.empty():
                    for event in reader.native(tools):
                        yield event
                    if calls:
                        batch, calls = calls, []
                        progress.asks_us = True
                        yield reader.message([call for _, call in batch])
                        acting = asyncio.create_task(self._act(batch, tools), name="codex:tools")
        finally:
            tasks = [watch] if acting is None else [watch, acting]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _finished(self, ended: Mapping[str, Any], reader: TurnReader, tools: RunTools) -> list[Event]:
        """The last events of a turn; raises when it failed."""
        if ended["status"] == "failed":
            raise reader.failure or turn_error(ended.get("error"))
        if ended["status"] == "interrupted":
            raise TurnEndedEarly("Codex stopped the turn by itself.")
        last: list[Event] = [*reader.native(tools)]
        return [*last, reader.message(())] if reader.said else last

    def _question(self, reader: TurnReader) -> list[Event]:
        """What the tools ask the person, as a message; the turn ends with it."""
        if not self._asks:
            return []
        first = self._asks[0]
        whole = first if len(self._asks) == 1 else AskedQuestion(first.id, "\n\n".join(e.text for e in self._asks))
        said = reader.message(()).message
        return [MessageEnded(structs.replace(said, content=(*said.content, Text(whole.text)), asks=whole))]

    def _taken(self, frame: Frame) -> User | None:
        """The message of a person that the thread has just taken up."""
        item = frame.params.get("item") or {}
        if frame.method != "item/completed" or item.get("type") != "userMessage":
            return None
        return self._sent.get(item.get("clientId") or "")

    # Tools.

    async def _answer(self, frame: Frame, result: Mapping[str, Any]) -> None:
        assert self._server is not None
        await self._server.answer(frame, result)

    async def _refuse(self, frame: Frame) -> None:
        """Says no to a request that none of our tools stands for."""
        assert self._server is not None
        if (no := REFUSALS.get(frame.method)) is not None:
            await self._server.answer(frame, no)
        else:
            await self._server.refuse(frame)

    async def _act(self, batch: Sequence[tuple[Frame, ToolCall]], tools: RunTools) -> None:
        """Has the calls of one reply judged and run, and answers each as soon as it is done."""
        left = {call.id: call for _, call in batch}
        work = asyncio.create_task(self._run_calls(batch, tools, left), name="codex:calls")
        over = asyncio.create_task(self._native.left.wait(), name="codex:over")
        try:
            await asyncio.wait((work, over), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
        finally:
            for task in (work, over):
                task.cancel()
            await asyncio.gather(work, over, return_exceptions=True)
            for call in left.values():
                gone = (Text("Codex ended the turn before this was answered."),)
                result = ToolResult(tool_call_id=call.id, tool_name=call.name, content=gone, is_error=True)
                self._news.put_nowait(ToolEnded(call, result))
            self._news.put_nowait(_ToolsDone())

    async def _run_calls(
        self, batch: Sequence[tuple[Frame, ToolCall]], tools: RunTools, left: dict[str, ToolCall]
    ) -> None:
        frames = {call.id: frame for frame, call in batch}
        native = {
            call.id: self._native.performer(frame, call)
            for frame, call in batch
            if frame.method not in ("item/tool/call", QUESTION)
        }
        async with aclosing(tools.run_all([call for _, call in batch], performers=native)) as events:
            async for event in events:
                self._news.put_nowait(event)
                if not isinstance(event, ToolEnded):
                    continue
                left.pop(event.call.id, None)
                frame = frames[event.call.id]
                if event.call.id in native:
                    await self._native.finish(frame, event.call)
                elif frame.method == QUESTION:
                    await self._answer(frame, REFUSALS[QUESTION])
                else:
                    await self._answer(frame, result_to_json(event.result))

    # The thread.

    async def _begin(self, job: RunJob, tools: RunTools, reader: TurnReader) -> None:
        """Starts a turn; a process that ends before it has accepted one is replaced once."""
        try:
            await self._start(job, tools, reader)
        except CodexRefused:
            raise
        except Unavailable:
            if self._told or self._late:
                raise
            await self._leave()
            await self._start(job, tools, reader)

    async def _start(self, job: RunJob, tools: RunTools, reader: TurnReader) -> None:
        asked = self._late
        if self._server is not None:
            await self._move(again=not reader.acted)
        if self._server is None:
            asked = await self._thread(job, tools)
            reader.total = dict(self._binding.total)
        server, attempt = self._server, self._route.attempt
        assert server is not None
        if not self._told:
            # The binding says so first, so that a crash in between is noticed.
            count, known = mark(job.messages)
            self._binding = structs.replace(self._binding, count=count, known=known, begun=False)
            await self._keep()
        self._started = False
        accepted = await server.request(
            "turn/start",
            turn_params(
                given_before(self._session.layers, self._binding.given),
                self._binding.thread_id,
                None if self._told else asked,
                model=attempt.model.id,
                thinking=attempt.thinking,
            ),
        )
        self._turn_id, self._told, self._late = accepted["turn"]["id"], True, ()
        self._binding = structs.replace(self._binding, begun=True, given=digest(self._session.layers.turn))
        await self._keep()

    async def _thread(self, job: RunJob, tools: RunTools) -> tuple[User, ...]:
        """The thread of this session, resumed or begun with the history; gives what it was not told yet."""
        session, model = self._session, self._route.attempt.model
        server = self._server = await self._harness.server(session, self._program, self._route)
        offered = dynamic_tools(session, tools.specs)
        fresh = binding_for(session, offered, server.version)
        bindings = self._harness.bindings(session.agent_id)
        known = None if session.light else await asyncio.to_thread(bindings.get, session.session_id)
        if known is not None and known.fits(fresh, visits=session.visits):
            asked = unheard(known, job.messages)
            if asked is not None and await self._resumed(server, known.thread_id):
                self._binding = known
                server.listen(known.thread_id, self._news)
                return asked
        history, asked = split_new(job.messages)
        begun = await server.request("thread/start", thread_params(session, offered, model=model.id))
        thread_id = begun["thread"]["id"]
        server.loaded.add(thread_id)
        self._binding = structs.replace(fresh, thread_id=thread_id)
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

    async def _move(self, *, again: bool) -> None:
        """Takes the thread to the process of the model that is asked now, if that is another one."""
        old, thread_id = self._server, self._binding.thread_id
        assert old is not None
        if self._harness.serves(old, self._session, self._program, self._route):
            return
        old.forget(thread_id)
        if self._session.light and again:  # a thread that is not kept cannot be taken along
            self._server, self._told = None, False
            return
        old.loaded.discard(thread_id)
        with suppress(Unavailable):
            await old.request("thread/unsubscribe", {"threadId": thread_id})
        server = self._server = await self._harness.server(self._session, self._program, self._route)
        if not await self._resumed(server, thread_id):
            raise TurnEndedEarly("The Codex thread could not be taken to another model: ask again.")
        server.listen(thread_id, self._news)

    async def _leave(self) -> None:
        """Gives up a process that has ended."""
        server, self._server = self._server, None
        if server is not None:
            server.forget(self._binding.thread_id)
            await server.close()
        while not self._news.empty():
            self._news.get_nowait()

    async def _keep(self) -> None:
        if self._session.light:
            return
        bindings = self._harness.bindings(self._session.agent_id)
        await asyncio.to_thread(bindings.put, self._session.session_id, self._binding)

    # Steering, stopping, watching.

    async def _steer(self, steering: Steering) -> None:
        """Passes on what people added; a message that is refused waits for the next turn."""
        server = self._server
        assert server is not None
        if not self._started or not self._turn_id:
            return
        for message in [each for each in steering.waiting if each not in self._sent.values()]:
            number = f"steer-{len(self._sent) + 1}"
            self._sent[number] = message
            asked = {
                "threadId": self._binding.thread_id,
                "expectedTurnId": self._turn_id,
                "input": input_of(message),
                "clientUserMessageId": number,
            }
            with suppress(CodexRefused):
                await server.request("turn/steer", asked, STEER_SECONDS)

    async def _interrupt(self, seconds: float, *, clean: bool = False) -> None:
        """Stops the turn, with `clean` also what it started; a server that does not obey in time is ended."""
        server, turn_id = self._server, self._turn_id
        if server is None or not turn_id:
            return
        thread = {"threadId": self._binding.thread_id}
        try:
            async with asyncio.timeout(seconds):
                while not self._started:  # before that it would be refused, and the turn would run to its end
                    self._note(await self._news.get())
                await server.request("turn/interrupt", {**thread, "turnId": turn_id}, seconds)
                while self._turn_id:
                    self._note(await self._news.get())
                if clean and self._session.posture == "native":
                    await server.request("thread/backgroundTerminals/clean", thread, seconds)
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
        await self._interrupt(INTERRUPT_SECONDS, clean=True)
        server, thread_id = self._server, self._binding.thread_id
        await self._meter.settle(reader.spent)
        if server is not None:
            if thread_id:
                server.forget(thread_id)
                given = "" if reader.compacted else self._binding.given
                self._binding = structs.replace(self._binding, total=reader.total, given=given)
                await self._keep()
            self._harness.released(server)

    async def _book(self, job: RunJob, tools: RunTools, reader: TurnReader, frame: Frame) -> None:
        """Books each answer of the model as it is counted, and reserves the next; over the limit the turn stops."""
        if frame.method == "thread/tokenUsage/updated":
            await self._meter.settle(reader.spent)
        elif frame.method == "item/started" and not self._meter.reserved:
            try:
                await self._meter.reserve(job, tools)
            except OverBudget as error:
                await self._interrupt(GIVE_UP_SECONDS, clean=True)
                raise error

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
            await self._meter.reserve(job, tools)
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
