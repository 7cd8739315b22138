"""Calls the handlers at each hook point: in order, within a timeout; one that fails is skipped, or counts as a no.

Plugins and HOOK.md directories (`files`) register here alike. The name of a HOOK.md event has a colon: those who
registered for its family (`command`) are called before those who named it (`command:new`)."""

import asyncio
import fnmatch
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Collection
from operator import attrgetter
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, structs

from openclaw.core import hooks
from openclaw.core.clock import Clock
from openclaw.core.hooks import HookContext, HookName
from openclaw.core.provider import ProviderPrompt
from openclaw.core.text import sanitize_line
from openclaw.plugins.hooks.points import HookChange, HookPoint, HookRegistration
from openclaw.security.audit import AuditChange

log = logging.getLogger(__name__)

E = TypeVar("E", bound=Struct)
A = TypeVar("A")
M = TypeVar("M", bound=Struct)

GRACE = 1.0
"""Seconds a cancelled handler has to end at shutdown."""
PROMPT_POINTS = (
    "before_prompt_build",
    "agent_turn_prepare",
    "heartbeat_prompt_contribution",
    "provider_prompt_contribution",
)
"""Where a plugin adds text to prompts."""
LONGEST_WORDS = 300
"""Of an error message, in characters, in the log."""
MOST_WAITING = 500
"""Events that wait for a handler that is told of them in order."""


class HookFailure(Exception):
    """A handler gave no usable answer; the message is for the log and the audit."""


def refuse_reason(registration: HookRegistration) -> str:
    """Why a handler may not be registered at its point; empty when it may."""
    point, settings = registration.point, registration.settings
    if point is None:
        return ""
    where = f"plugins.entries.{registration.plugin}.hooks"
    if point.conversation and not (registration.bundled or settings.allow_conversation_access):
        return f"{registration.hook} shows what people say: set {where}.allowConversationAccess to let it listen"
    if registration.hook in PROMPT_POINTS and not settings.allow_prompt_injection:
        return f"{registration.hook} is closed to it: {where}.allowPromptInjection is off"
    if point.kind == "sync" and inspect.iscoroutinefunction(registration.handler):
        return f"{registration.hook} is asked while a result is written: its handler must be a plain function"
    return ""


class _Lane(Struct):
    """What the handlers of one owner have yet to be told, and the task that tells them."""

    task: "asyncio.Task[None]"
    waiting: deque[tuple[HookRegistration, Any, HookContext]]


class HookDispatcher:
    """The registered handlers. Observers run in the background until `close`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._order: list[HookRegistration] = []
        self.any = False
        """Whether a plugin has registered any handler at all."""
        self._at: dict[str, tuple[HookRegistration, ...]] = {}
        self._running: set[asyncio.Task[Any]] = set()
        self._ours: set[asyncio.Task[Any]] = set()
        """Those of them that surely end when they are cancelled."""
        self._lanes: dict[str, _Lane] = {}

    def add(self, registration: HookRegistration) -> str:
        """Registers a handler; gives the reason when it is refused."""
        why = refuse_reason(registration)
        if why:
            log.warning("plugin %s: %s", registration.plugin, why)
            return why
        self._order.append(registration)
        self.any = self.any or registration.point is not None
        self._sort(registration.hook)
        return ""

    def remove(self, plugin: str) -> None:
        """Unregisters every handler of `plugin`; calls in progress finish."""
        gone = {each.hook for each in self._order if each.plugin == plugin}
        self._order = [each for each in self._order if each.plugin != plugin]
        self.any = any(each.point for each in self._order)
        for name in gone:
            self._sort(name)

    def has(self, name: HookName) -> bool:
        """Whether a handler is registered; where none is, the caller need not build the event."""
        return name in self._at

    def hears(self, name: str, event: Any, context: HookContext) -> bool:
        """Whether anybody would be called with this event."""
        return bool(self._concerned(name, event, context))

    def _sort(self, name: str) -> None:
        concerned = [each for each in self._order if each.hook == name]
        found = sorted(concerned, key=attrgetter("priority"), reverse=True)
        self._at.pop(name, None)
        if found:
            self._at[name] = tuple(found)

    async def ask(self, point: HookPoint[E, A, M], event: E, context: HookContext) -> M:
        """Asks the handlers one after the other and merges their answers."""
        merged = point.start(event)
        for each in self._concerned(point.name, event, context):
            try:
                told = await self._within(each, point.view(event, merged), context)
                answer: A | None = _convert_answer(each, told)
            except HookFailure as error:
                answer = self._give_up(point, each, str(error))
            if answer is not None:
                merged = point.step(merged, each, answer)
            if point.over(merged):
                break
        return merged

    def ask_now(self, point: HookPoint[E, A, M], event: E, context: HookContext) -> M:
        """The same for synchronous points: handlers are plain functions."""
        merged = point.start(event)
        for each in self._concerned(point.name, event, context):
            try:
                answer: A | None = _convert_answer(each, each.handler(point.view(event, merged), context))
            except (Exception, SystemExit) as error:
                answer = self._give_up(point, each, _words(error))
            if answer is not None:
                merged = point.step(merged, each, answer)
            if point.over(merged):
                break
        return merged

    def tell(self, name: str, event: Any, context: HookContext) -> None:
        """Notifies the observers in the background."""
        for each in self._concerned(name, event, context):
            if not each.in_order:
                self.keep(asyncio.create_task(self._observe(each, event, context), name=f"hook:{name}:{each.plugin}"))
                continue
            lane = self._lanes.get(each.plugin)
            if lane is None:
                waiting: deque[tuple[HookRegistration, Any, HookContext]] = deque()
                task = asyncio.create_task(self._tell_in_order(each.plugin, waiting), name=f"hook:{each.plugin}")
                self._lanes[each.plugin] = lane = _Lane(task, waiting)
                self.keep(task)
            if len(lane.waiting) < MOST_WAITING:
                lane.waiting.append((each, event, context))
            else:
                log.warning("%s is too slow: it is not told of %s", each.plugin, name)

    async def _tell_in_order(self, owner: str, waiting: deque[tuple[HookRegistration, Any, HookContext]]) -> None:
        try:
            while waiting:
                await self._observe(*waiting.popleft())
        finally:
            if owner in self._lanes and self._lanes[owner].waiting is waiting:
                del self._lanes[owner]

    async def drain(self, but: Collection[str] = ()) -> None:
        """Waits until everything that waits its turn was told, except to the owners in `but`."""
        while left := [lane.task for owner, lane in self._lanes.items() if owner not in but]:
            await asyncio.wait(left)

    def drop_waiting(self) -> None:
        """Forgets what still waits its turn, and stops the handlers that are told of something in order."""
        dropped, self._lanes = self._lanes, {}
        for lane in dropped.values():
            lane.task.cancel()

    async def told(self, name: HookName, event: Any, context: HookContext) -> None:
        """Notifies the observers concurrently and waits until each has answered or timed out."""
        await asyncio.gather(*(self._observe(each, event, context) for each in self._concerned(name, event, context)))

    async def close(self, seconds: float = 5.0) -> None:
        """Waits up to `seconds` for what is still running, then cancels it."""
        left = {task for task in self._running if not task.done()}
        if left:
            await asyncio.wait(left, timeout=seconds)
            for task in left:
                task.cancel()
            await asyncio.wait(left, timeout=GRACE)
        # A plugin's code may resist; a HOOK.md's is in a process, which is ended before its task is.
        if ours := {task for task in self._ours if not task.done()}:
            await asyncio.wait(ours)

    def _concerned(self, name: str, event: Any, context: HookContext) -> tuple[HookRegistration, ...]:
        found = self._at.get(name, ())
        family, colon, _ = name.partition(":")
        if colon and family in self._at:
            exact = {each.plugin for each in found}
            found = (*(each for each in self._at[family] if each.plugin not in exact), *found)
        return tuple(each for each in found if _concerns(each, event, context))

    async def _observe(self, each: HookRegistration, event: Any, context: HookContext) -> None:
        try:
            await self._within(each, event, context)
        except HookFailure as error:
            _report(each, str(error), "passed over")

    async def _within(self, each: HookRegistration, event: Any, context: HookContext) -> Any:
        """The handler's answer; raises `HookFailure` when it fails or takes too long."""
        task: asyncio.Task[Any] = asyncio.create_task(_called(each, event, context), name=f"hook:{each.plugin}")
        self.keep(task)
        if each.in_order:
            self._ours.add(task)
        timer: asyncio.Task[Any] | None = None
        try:
            await asyncio.sleep(0)  # most handlers answer at once: then no timer is set
            if not task.done():
                timer = asyncio.create_task(self._clock.sleep(each.seconds)) if each.seconds else None
                await asyncio.wait({task, timer} if timer else {task}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise HookFailure(f"it took longer than {each.seconds:g} s")
        finally:
            # A handler that resists cancellation is not waited for: it is kept, and ended by `close`.
            task.cancel()
            if timer is not None:
                timer.cancel()
        if task.cancelled():
            raise HookFailure("it was cancelled")
        error = task.exception()
        if error is not None:
            raise HookFailure(_words(error)) from error
        return task.result()

    def _give_up(self, point: HookPoint[E, A, M], each: HookRegistration, why: str) -> A | None:
        objection = point.objection if each.point and each.point.fails == "closed" else None
        _report(each, why, "counted as an objection" if objection else "passed over")
        return objection(block=True, block_reason=f"{each.plugin} could not decide: {why}") if objection else None

    def keep(self, task: "asyncio.Task[Any]") -> None:
        """Owns a task until it is done; `close` waits for it, then cancels it."""
        self._running.add(task)
        task.add_done_callback(self._let_go)

    def _let_go(self, task: "asyncio.Task[Any]") -> None:
        self._running.discard(task)
        self._ours.discard(task)
        if not task.cancelled():
            task.exception()  # already reported, or it ended after everyone had stopped waiting


async def _called(each: HookRegistration, event: Any, context: HookContext) -> Any:
    try:
        answer = each.handler(event, context)
        return await answer if isinstance(answer, Awaitable) else answer
    except SystemExit as error:  # in a task, SystemExit would end the whole process
        raise HookFailure(_words(error)) from error


def _report(each: HookRegistration, why: str, outcome: str) -> None:
    log.warning("plugin %s: its handler of %s was %s: %s", each.plugin, each.hook, outcome, why)


def _convert_answer(each: HookRegistration, answer: Any) -> Any:
    """An answer as the point's own type; a handler may return a mapping with the same fields, or None."""
    if answer is None or each.point is None:
        return answer
    kind = each.point.answer
    if kind is None or isinstance(answer, kind):
        return answer
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise HookFailure(f"its answer is not a {kind.__name__}: {error}") from error


def _concerns(each: HookRegistration, event: Any, context: HookContext) -> bool:
    if each.triggers and context.trigger not in each.triggers:
        return False
    if each.workspace and context.agent_id:
        return each.workspace == context.workspace_dir
    if isinstance(event, ProviderPrompt):
        return event.provider in each.providers
    if isinstance(event, hooks.InboundClaim):
        return each.plugin == event.plugin_id
    if not each.tools or not isinstance(event, hooks.BeforeToolCall | hooks.AfterToolCall | hooks.ToolResultPersist):
        return True
    return any(fnmatch.fnmatchcase(event.tool_name, pattern) for pattern in each.tools)


def _words(error: BaseException) -> str:
    said = str(error) if isinstance(error, HookFailure) else f"{type(error).__name__}: {error}".rstrip(": ")
    return sanitize_line(said)[:LONGEST_WORDS]


def audit_change(hook: str, change: HookChange, note: str = "") -> AuditChange:
    """A change as an entry of the audit."""
    return AuditChange(hook=hook, note=note, **structs.asdict(change))
