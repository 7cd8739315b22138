"""Calls the handlers at each hook point: in order, within a timeout; one that fails is skipped, or counts as a no."""

import asyncio
import fnmatch
import inspect
import logging
from collections.abc import Awaitable
from operator import attrgetter
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, structs

from openclaw.core import hooks
from openclaw.core.clock import Clock
from openclaw.core.hook_points import POINTS
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


class HookFailure(Exception):
    """A handler gave no usable answer; the message is for the log and the audit."""


def refuse_reason(registration: HookRegistration) -> str:
    """Why a handler may not be registered at its point; empty when it may."""
    point, settings = POINTS[registration.hook], registration.settings
    where = f"plugins.entries.{registration.plugin}.hooks"
    if point.conversation and not (registration.bundled or settings.allow_conversation_access):
        return f"{registration.hook} shows what people say: set {where}.allowConversationAccess to let it listen"
    if registration.hook in PROMPT_POINTS and not settings.allow_prompt_injection:
        return f"{registration.hook} is closed to it: {where}.allowPromptInjection is off"
    if point.kind == "sync" and inspect.iscoroutinefunction(registration.handler):
        return f"{registration.hook} is asked while a result is written: its handler must be a plain function"
    return ""


class HookDispatcher:
    """The registered handlers. Observers run in the background until `close`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._order: list[HookRegistration] = []
        self.any = False
        """Whether any handler is registered at all."""
        self._at: dict[HookName, tuple[HookRegistration, ...]] = {}
        self._running: set[asyncio.Task[Any]] = set()

    def add(self, registration: HookRegistration) -> str:
        """Registers a handler; gives the reason when it is refused."""
        why = refuse_reason(registration)
        if why:
            log.warning("plugin %s: %s", registration.plugin, why)
            return why
        self._order.append(registration)
        self.any = True
        self._sort(registration.hook)
        return ""

    def remove(self, plugin: str) -> None:
        """Unregisters every handler of `plugin`; calls in progress finish."""
        gone = {each.hook for each in self._order if each.plugin == plugin}
        self._order = [each for each in self._order if each.plugin != plugin]
        self.any = bool(self._order)
        for name in gone:
            self._sort(name)

    def has(self, name: HookName) -> bool:
        """Whether a handler is registered; where none is, the caller need not build the event."""
        return name in self._at

    def _sort(self, name: HookName) -> None:
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

    def tell(self, name: HookName, event: Any, context: HookContext) -> None:
        """Notifies the observers in the background."""
        for each in self._concerned(name, event, context):
            self._keep(asyncio.create_task(self._observe(each, event, context), name=f"hook:{name}:{each.plugin}"))

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

    def _concerned(self, name: HookName, event: Any, context: HookContext) -> tuple[HookRegistration, ...]:
        return tuple(each for each in self._at.get(name, ()) if _concerns(each, event, context))

    async def _observe(self, each: HookRegistration, event: Any, context: HookContext) -> None:
        try:
            await self._within(each, event, context)
        except HookFailure as error:
            _report(each, str(error), "passed over")

    async def _within(self, each: HookRegistration, event: Any, context: HookContext) -> Any:
        """The handler's answer; raises `HookFailure` when it fails or takes too long."""
        task: asyncio.Task[Any] = asyncio.create_task(_called(each, event, context), name=f"hook:{each.plugin}")
        self._keep(task)
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
        objection = point.objection if POINTS[each.hook].fails == "closed" else None
        _report(each, why, "counted as an objection" if objection else "passed over")
        return objection(block=True, block_reason=f"{each.plugin} could not decide: {why}") if objection else None

    def _keep(self, task: "asyncio.Task[Any]") -> None:
        self._running.add(task)
        task.add_done_callback(self._let_go)

    def _let_go(self, task: "asyncio.Task[Any]") -> None:
        self._running.discard(task)
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
    kind = POINTS[each.hook].answer
    if answer is None or kind is None or isinstance(answer, kind):
        return answer
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise HookFailure(f"its answer is not a {kind.__name__}: {error}") from error


def _concerns(each: HookRegistration, event: Any, context: HookContext) -> bool:
    if each.triggers and context.trigger not in each.triggers:
        return False
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


def audit_change(hook: HookName, change: HookChange, note: str = "") -> AuditChange:
    """A change as an entry of the audit."""
    return AuditChange(hook=hook, note=note, **structs.asdict(change))
