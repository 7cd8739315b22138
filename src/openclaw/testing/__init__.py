"""Kit for testing an agent, ours or yours: a scripted model, a manual clock, a channel in memory, a temporary home.

The fakes replace the seams; the code under test is the real one. With pytest the fixtures `openclaw_home`,
`scripted_model`, `fake_clock` and `fake_channel` are there without an import. docs/testing.md shows how.
"""

import asyncio
import hashlib
import heapq
import itertools
import json
import sys
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from msgspec import Struct, structs

from openclaw.core import messages
from openclaw.core.channel import Inbound, Outbound, Receipt
from openclaw.core.clock import Clock, Timer
from openclaw.core.errors import ProviderError, Unavailable
from openclaw.core.events import (
    CallDelta,
    Done,
    Event,
    MessageEnded,
    ModelEvent,
    RunEnded,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
)
from openclaw.core.harness import Steering
from openclaw.core.messages import AssistantBlock, Text, Thinking, ToolCall, ToolResult, Usage
from openclaw.core.provider import Endpoint, ModelRequest, Provider, cost_of
from openclaw.core.sandbox import RunningSandbox, SandboxLaunch, SandboxSpec, to_host_path
from openclaw.core.tool import ApprovalAnswer, ApprovalRequest, Approver, Decision
from openclaw.models.providers import encode_request
from openclaw.process.environment import Environment
from openclaw.runs.replay import Replay, load_export, replay
from openclaw.runs.request import RunRequest

if TYPE_CHECKING:
    from openclaw.gateway.app import App
    from openclaw.models.recording import RecordedCall
    from openclaw.runs.request import RecordedEvent, SessionRenewed, SessionRepaired

T = TypeVar("T")


class Says(Struct):
    """The model says `text`, in pieces of `piece` characters."""

    text: str
    piece: int = 8


class Thinks(Struct):
    """The model emits reasoning before it goes on."""

    text: str
    signature: str | None = None


class Calls:
    """The model calls a tool."""

    def __init__(self, tool: str, /, **arguments: Any) -> None:
        self.tool = tool
        self.arguments = arguments


class Fails(Struct):
    """The model's provider fails, before or after some text."""

    error: ProviderError


class Stalls(Struct):
    """The model stalls until `go` is set (or for ever)."""

    go: asyncio.Event | None = None


class HangsUp:
    """The model's provider ends the stream in the middle, without an error."""


Step = Says | Thinks | Calls | Fails | Stalls | HangsUp


says = Says
calls = Calls
thinks = Thinks
fails = Fails
stalls = Stalls
hangs_up = HangsUp


class ScriptedModel:
    """A `Provider` that answers from a script, one reply a request, and records the requests."""

    def __init__(self, *replies: Step | Sequence[Step]) -> None:
        self.requests: list[ModelRequest] = []
        self._replies: deque[Sequence[Step]] = deque()
        self._ids = itertools.count(1)
        self.script(*replies)

    def script(self, *replies: Step | Sequence[Step]) -> None:
        """Adds replies; a sequence of steps is one reply."""
        self._replies.extend((reply,) if isinstance(reply, Step) else tuple(reply) for reply in replies)

    def saw(self, text: str) -> bool:
        """Whether any request contained `text`, in the prompt or in a message."""
        return any(text in _everything(request) for request in self.requests)

    @property
    def left(self) -> int:
        return len(self._replies)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.requests.append(request)
        if not self._replies:
            raise ProviderError("the script is over: the model was asked once more than it has replies")
        content: list[AssistantBlock] = []
        for step in self._replies.popleft():
            match step:
                case Says(text=text, piece=piece):
                    for start in range(0, len(text), piece):
                        yield TextDelta(text[start : start + piece])
                    content.append(Text(text))
                case Thinks(text=text, signature=signature):
                    yield ThinkingDelta(text)
                    content.append(Thinking(text, signature))
                case Calls(tool=tool, arguments=arguments):
                    call = ToolCall(id=f"call_{next(self._ids)}", name=tool, arguments=arguments)
                    yield CallDelta(call.id, tool, json.dumps(arguments))
                    content.append(call)
                case Fails(error=error):
                    raise error
                case Stalls(go=go):
                    await (go or asyncio.Event()).wait()
                case HangsUp():
                    return
        yield Done(self._finished(request, content))

    async def close(self) -> None:
        return None

    def _finished(self, request: ModelRequest, content: list[AssistantBlock]) -> messages.Assistant:
        spoken = sum(len(block.text) for block in content if isinstance(block, Text))
        usage = Usage(input=len(_everything(request)) // 4, output=max(1, spoken // 4))
        total = usage.input + usage.output
        usage = structs.replace(usage, total_tokens=total, cost=cost_of(usage, request.model.price))
        return messages.Assistant(
            content=tuple(content),
            api=request.model.api,
            provider=request.model.provider,
            model=request.model.id,
            usage=usage,
            stop_reason="toolUse" if any(isinstance(block, ToolCall) for block in content) else "stop",
        )


def _everything(request: ModelRequest) -> str:
    return "\n".join([request.system.text, *messages.grow(_SaidTexts, request.messages).texts])


class _SaidTexts:
    """What the messages of a conversation say."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def add(self, message: messages.Message) -> None:
        self.texts.append(message.text)
        if isinstance(message, messages.Assistant):
            self.texts.extend(json.dumps(call.arguments) for call in message.calls)


LULL = 0.01
LULLS = 5


class FakeClock:
    """Time that stands still until a test moves it."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self._now = now
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), future))
        await future

    def call_later(self, seconds: float, work: Callable[[], object]) -> Timer:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda ended: None if ended.cancelled() else work())
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), future))
        return future

    async def advance(self, seconds: float) -> None:
        """Moves time on, waking every sleeper at its time and letting it run before the next."""
        target = self._now + seconds
        await self._settle()
        while self._sleepers and self._sleepers[0][0] <= target:
            self._now, _, future = heapq.heappop(self._sleepers)
            if not future.done():
                future.set_result(None)
            await self._settle()
        self._now = target
        await self._settle()

    async def drive(self, work: Awaitable[T]) -> T:
        """Awaits `work`; whenever nothing else happens, moves time on to the next sleeper.

        The loop cannot see work in a thread, so time stands still until the process has used no CPU for a while.
        """
        task = asyncio.ensure_future(work)
        quiet = 0
        try:
            while True:
                used = time.process_time()
                if (await asyncio.wait({task}, timeout=LULL))[0]:
                    return task.result()
                quiet = quiet + 1 if time.process_time() - used < LULL / 5 else 0
                waking = [moment for moment, _, future in self._sleepers if not future.done()]
                if waking and quiet >= LULLS:
                    quiet = 0
                    await self.advance(min(waking) - self._now)
        finally:
            task.cancel()

    @staticmethod
    async def _settle() -> None:
        for _ in range(20):
            await asyncio.sleep(0)


class Person:
    """Someone on a `FakeChannel`."""

    def __init__(self, channel: "FakeChannel", name: str) -> None:
        self._channel = channel
        self.name = name
        self.heard: asyncio.Queue[Outbound] = asyncio.Queue()

    async def writes(self, text: str, *, id: str | None = None, group: str | None = None) -> None:  # noqa: A002
        await self._channel.deliver(
            Inbound(
                id=id or f"m{next(self._channel.ids)}",
                channel=self._channel.name,
                sender=self.name,
                text=text,
                group=group,
                mentioned=group is not None,
            )
        )

    async def hears(self, deadline: float = 10.0) -> str:
        """Waits for the next message to this person."""
        async with asyncio.timeout(deadline):
            return (await self.heard.get()).text


class FakeChannel:
    """A `Channel` in memory."""

    def __init__(self, name: str = "fake") -> None:
        self.name = name
        self.sent: list[Outbound] = []
        self.ids = itertools.count(1)
        self._inbox: asyncio.Queue[Inbound] = asyncio.Queue()
        self._people: dict[str, Person] = {}

    def person(self, name: str) -> Person:
        return self._people.setdefault(name, Person(self, name))

    async def deliver(self, message: Inbound) -> None:
        await self._inbox.put(message)

    async def listen(self) -> AsyncIterator[Inbound]:
        while True:
            yield await self._inbox.get()

    async def send(self, message: Outbound) -> Receipt:
        self.sent.append(message)
        person = self._people.get(message.to.to)
        if person is not None:
            person.heard.put_nowait(message)
        return Receipt(id=f"r{len(self.sent)}")


class ScriptedApprover:
    """An `Approver` that gives the prepared decisions in order, and repeats the last."""

    def __init__(self, *decisions: Decision) -> None:
        self._decisions = deque(decisions or ("deny",))
        self.asked: list[ApprovalRequest] = []

    async def decide(self, request: ApprovalRequest) -> ApprovalAnswer:
        self.asked.append(request)
        decision = self._decisions.popleft() if len(self._decisions) > 1 else self._decisions[0]
        return ApprovalAnswer(decision, by="script")


class TemporaryHome:
    """A home of its own below `root`: state directory, configuration, workspace, and an environment that names them."""

    server: ClassVar[str] = ""
    """A PostgreSQL server on which every home gets a schema of its own; without one its state is a file."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.state = root / ".openclaw"
        self.config_path = self.state / "openclaw.json"
        self.workspace = self.state / "workspace"
        self.workspace.mkdir(parents=True, exist_ok=True)

    @property
    def environ(self) -> dict[str, str]:
        """A bare environment: no keys, only the machine's PATH."""
        return {
            "HOME": str(self.root),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "OPENCLAW_STATE_DIR": str(self.state),
            "OPENCLAW_CONFIG_PATH": str(self.config_path),
            "OPENCLAW_NO_LOCAL_MODELS": "1",
        }

    def configure(self, settings: Mapping[str, Any]) -> None:
        if self.server:
            schema = hashlib.blake2b(str(self.root).encode(), digest_size=10).hexdigest()
            settings = {"store": {"url": f"{self.server}?search_path=home_{schema}"}, **settings}
        self.config_path.write_text(json.dumps(settings, indent=2))
        self.config_path.chmod(0o600)

    def use_model(self, *models: str, **settings: Any) -> None:
        """Configures a scripted model for each `provider/model` named, the first as primary, the others as fallbacks.

        `settings` are further sections of the configuration; `assistant` opens the models.
        """
        refs = models or ("scripted/scripted",)
        providers: dict[str, Any] = {}
        for provider, _, model in (ref.partition("/") for ref in refs):
            entry = {"api": "openai-completions", "baseUrl": "http://127.0.0.1:9/v1", "models": []}
            providers.setdefault(provider, entry)["models"].append({"id": model, "input": ["text", "image"]})
        choice = {"primary": refs[0], "fallbacks": refs[1:]}
        self.configure({"models": {"providers": providers}, "agents": {"defaults": {"model": choice}}, **settings})

    def assistant(
        self, model: Provider | Mapping[str, Provider], *, clock: Clock | None = None, approver: Approver | None = None
    ) -> "AbstractAsyncContextManager[App]":
        """The whole assistant in this process. `model` answers for every provider, or each by its name."""
        from openclaw.gateway.app import open_app

        def open_provider(endpoint: Endpoint) -> Provider:
            return model[endpoint.provider] if isinstance(model, Mapping) else model

        return open_app(
            Environment(environ=self.environ, home_dir=self.root, cwd=self.workspace),
            clock=clock or FakeClock(),
            approver=approver or ScriptedApprover("deny"),
            open_provider=open_provider,
        )

    def transcripts(self, agent: str = "main") -> list[Path]:
        return sorted((self.state / "agents" / agent / "sessions").glob("*.jsonl"))


class Heard:
    """The events of one turn, and the parts a test asks about."""

    def __init__(self) -> None:
        self.events: list[Event | SessionRepaired | SessionRenewed | RecordedEvent] = []

    @property
    def text(self) -> str:
        """The model's last text."""
        said = [event.message.text for event in self.events if isinstance(event, MessageEnded)]
        return said[-1] if said else ""

    @property
    def results(self) -> list[ToolResult]:
        return [event.result for event in self.events if isinstance(event, ToolEnded)]

    @property
    def end(self) -> RunEnded:
        return next(event for event in self.events if isinstance(event, RunEnded))


async def ask(
    app: "App",
    text: str,
    *,
    session: str = "main",
    steering: Steering | None = None,
    into: Heard | None = None,
    **turn: Any,
) -> Heard:
    """Runs one turn to its end. Events so far are in `into`, for a test that stops it half way."""
    from openclaw.runs.turn import TurnPrepared

    heard = Heard() if into is None else into
    wanted = RunRequest(run_id=uuid.uuid4().hex, key=app.key(session, None), text=text, **turn)
    async with aclosing(app.turns.run(wanted, app.toolset(), steering)) as events:
        async for event in events:
            if not isinstance(event, TurnPrepared):
                heard.events.append(event)
    return heard


class RecordedRun:
    """A run that `openclaw runs export` wrote to a file, as a test case.

    `replay` runs it through the loop again; `model` answers as its models did, for a test of your own.
    """

    def __init__(self, data: bytes) -> None:
        document, self.calls = load_export(data)
        self.run_id = document.run_id

    @classmethod
    def load(cls, path: str | Path) -> "RecordedRun":
        return cls(Path(path).read_bytes())

    @property
    def question(self) -> str:
        """The person's last message before the first call."""
        said = [message.text for message in self.calls[0].request.messages if isinstance(message, messages.User)]
        return said[-1] if said else ""

    @property
    def answer(self) -> str:
        """The last text of a model."""
        replies = [call.reply.text for call in self.calls if call.reply is not None]
        return replies[-1] if replies else ""

    def model(self) -> "RecordedModel":
        return RecordedModel(self.calls)

    async def replay(self) -> Replay:
        """Whether the loop still makes the same requests, to the byte; its text says what is different."""
        return await replay(self.calls, encode_request, FakeClock())


class RecordedModel:
    """A `Provider` that repeats the recorded answers, call by call, whatever it is asked."""

    def __init__(self, calls: "Sequence[RecordedCall]") -> None:
        self.requests: list[ModelRequest] = []
        self._left = deque(calls)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.requests.append(request)
        if not self._left:
            raise ProviderError("the recording is over: the model was asked once more than it was then")
        recorded = self._left.popleft()
        for event in recorded.events:
            yield event
        if recorded.failure is not None:
            raise recorded.failure.error()

    async def close(self) -> None:
        return None


class FakeSandbox:
    """A sandbox that starts programs in place, with the sandbox's variables only. It isolates nothing."""

    name = "fake"

    def __init__(self, problem: str = "") -> None:
        self._problem = problem
        self.launched: list[tuple[str, ...]] = []

    async def problem(self, box: SandboxSpec) -> str:
        return self._problem

    async def launch(
        self, box: SandboxSpec, argv: Sequence[str], *, cwd: str, env: Mapping[str, str], terminal: bool = False
    ) -> SandboxLaunch:
        if self._problem:
            raise Unavailable(self._problem)
        self.launched.append(tuple(argv))
        place = to_host_path(box, cwd) or box.root
        return SandboxLaunch(argv=tuple(argv), cwd=place, env={"PATH": "/usr/bin:/bin", **box.env, **env})

    async def python(self, box: SandboxSpec) -> str:
        return sys.executable

    async def standing(self, prefix: str) -> tuple[RunningSandbox, ...]:
        return ()

    async def discard(self, name: str) -> None:
        return None
