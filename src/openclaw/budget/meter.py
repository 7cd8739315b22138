"""Meters the calls of a run: each is reserved before it is sent, settled and recorded when it ends.

Also records failover: credentials that need a cooldown, and models that did not answer.
"""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, tzinfo
from functools import lru_cache, partial

from msgspec import Struct, structs

from openclaw.budget import limits
from openclaw.budget.ledger import CallEnd, CallRow, MeterAccount, ReservedCall, SpendLedger
from openclaw.budget.limits import BudgetRules, LimitLevel, OverLimit, Size, dollars
from openclaw.core.clock import Clock, millis
from openclaw.core.errors import OverBudget, ProviderError
from openclaw.core.events import RunNotice
from openclaw.core.messages import Assistant, Image, Message, Thinking, Usage, grow
from openclaw.core.provider import Model, ModelRequest, Price, cost_of
from openclaw.models import failover
from openclaw.models.credentials import Credential
from openclaw.models.failover import CredentialStats
from openclaw.models.recording import LARGE, CallRecorder, StreamRecording
from openclaw.models.registry import is_private_address

KeepProfile = Callable[[str, Callable[[CredentialStats], CredentialStats], str | None], Awaitable[None]]
"""Changes the stats of a profile: its id, the change, and the provider it just worked with."""

FREE = Price()
NO_COST = limits.Estimate(0.0, 0.0)
_SAID = {
    "rate_limit": "was rate limited",
    "overloaded": "was overloaded",
    "timeout": "did not answer in time",
    "server_error": "failed",
    "auth": "did not accept the key",
    "auth_permanent": "did not accept the key",
    "billing": "has no credit left",
    "model_not_found": "was not found",
    "empty_response": "gave an empty answer",
    "context_overflow": "could not take a conversation of this length",
    "budget": "was too dear for the budget",
    "aborted": "was stopped",
}


class MissedCall(Struct, frozen=True):
    """A candidate model that failed or was skipped."""

    ref: str
    reason: str
    at: int


class RunMeter:
    """Meters all model calls of one run."""

    def __init__(
        self,
        payer: MeterAccount,
        *,
        ledger: SpendLedger,
        rules: BudgetRules,
        recorder: CallRecorder,
        clock: Clock,
        keep_profile: KeepProfile,
        footer: str | None = None,
    ) -> None:
        self.payer = payer
        self._ledger = ledger
        self.rules = rules
        self._recorder = recorder
        self._clock = clock
        self._keep_profile = keep_profile
        self._footer = footer
        self._usage = Usage()
        self._missed: list[MissedCall] = []
        self._told: list[str] = []
        self._answered_by = ""
        self._last: ReservedCall | None = None
        self._reason = ""
        """The end reason of the last call, as its stream saw it."""
        self._open: CallRecording | None = None
        """The call under way; released when the run stops before it is sent."""
        self._closed: list[tuple[CallRecording, CallEnd]] = []
        self._amend: tuple[str, str, str] | None = None
        self._profiles: dict[str, tuple[Callable[[CredentialStats], CredentialStats], str | None]] = {}
        self._good: set[str] = set()

    def tell(self, line: str) -> None:
        """Adds a notice to show when the run ends."""
        self._told.append(line)

    def skipped(self, model: Model, reason: str, at: int) -> None:
        """Records that `model` was skipped: it failed for `reason` at `at` and is in cooldown."""
        self._missed.append(MissedCall(model.ref, reason, at))

    def failed(self, model: Model, credential: Credential, error: ProviderError, *, given_up: bool) -> None:
        """Records that the last call failed, also for reasons its stream does not show: a timeout, an empty answer.

        A credential that is given up gets a cooldown; one that is retried at once does not.
        """
        now = millis(self._clock)
        self._missed.append(MissedCall(model.ref, error.reason, now))
        if self._last is not None and self._reason != error.reason:
            self._amend = (self._last.call_id, error.reason, error.message)
        if given_up and credential.profile_id is not None and error.reason not in failover.NO_COOLDOWN_REASONS:
            self._good.discard(credential.profile_id)
            change = partial(failover.record_failure, reason=error.reason, model=model.id, now=now)
            self._profiles[credential.profile_id] = (change, None)

    def answered(self, model: Model, credential: Credential) -> None:
        self._answered_by = model.ref
        profile = credential.profile_id
        # Once per run is enough: it only marks the credential as working.
        if profile is not None and profile not in self._good:
            self._good.add(profile)
            change = partial(failover.record_success, now=millis(self._clock))
            self._profiles[profile] = (change, credential.provider)

    async def settle(self) -> None:
        """Writes the pending results to the database."""
        unsent = self._open
        if unsent is not None and not unsent.begun:
            self._open = None
            await self._ledger.release(unsent.call.call_id)
        closed, self._closed = self._closed, []
        for tape, end in closed:
            self._told += await self._ledger.commit(tape.call, end, self.rules)
            large = LARGE if tape.size.images else tape.size.text_bytes
            await self._recorder.keep(tape.call.call_id, tape.call.run_id, tape.request, tape, large)
        amend, self._amend = self._amend, None
        if amend is not None:
            await self._ledger.amend(*amend)
        profiles, self._profiles = self._profiles, {}
        for profile_id, (change, good_for) in profiles.items():
            await self._keep_profile(profile_id, change, good_for)

    async def ended(self) -> list[RunNotice]:
        """Settles the rest; returns the notices for the person: fallback model, budget warnings."""
        await self.settle()
        line = answered_by_line(self._answered_by, self._missed, self._ledger.zone) if self._missed else ""
        usage = footer(self._usage, self._footer) if self._footer else ""
        return [RunNotice(text) for text in (line, *self._told, usage) if text]

    async def levels(self) -> list[LimitLevel]:
        return await self._ledger.levels(self.payer, self.rules)

    async def reserve(self, credential: Credential, request: ModelRequest) -> "CallRecording":
        """Reserves a call; raises `OverBudget` when it must not be sent."""
        await self.settle()
        model = request.model
        call = ReservedCall(
            **structs.asdict(self.payer),
            # Calls that follow each other are neighbours in the indexes, whose pages are filled and written in order.
            call_id=f"{millis(self._clock):012x}{secrets.token_hex(10)}",
            provider=model.provider,
            model=model.id,
            profile=credential.profile_id or "",
            background=self.rules.background,
        )
        size = size_of(request)
        self._last = None
        price = price_of(model)
        estimate = NO_COST if price == FREE else limits.estimate(size, price)
        ruling = await self._ledger.reserve(call, estimate, self.rules)
        if isinstance(ruling, OverLimit):
            raise OverBudget(ruling.why)
        self._open = CallRecording(meter=self, call=call, size=size, request=request)
        return self._open


class CallRecording(StreamRecording, kw_only=True, eq=False):
    """A reserved call: what it streams, and its end on the books of its run."""

    meter: RunMeter
    call: ReservedCall
    size: Size
    request: ModelRequest
    begun: bool = False

    async def close(self) -> None:
        """Takes the end of the call down; one that was cut off is written with the next settlement."""
        if not self.begun:
            return
        meter, end = self.meter, _end(self)
        meter._open, meter._last, meter._reason = None, self.call, end.reason
        meter._usage = meter._usage + end.usage
        meter._closed.append((self, end))
        if self.message is not None:
            await meter.settle()


def price_of(model: Model) -> Price | None:
    """The price of a model; free when it runs on the user's own machine."""
    return model.price or (FREE if model.api == "offline" or is_private_address(model.base_url) else None)


def size_of(request: ModelRequest) -> Size:
    """Measures a request."""
    chars = _stable_bytes(request.system.stable) + len(request.system.dynamic.encode(errors="replace"))
    chars += sum(len(tool.name) + len(tool.description) + len(tool.schema) for tool in request.tools)
    said = grow(_Extent, request.messages)
    return Size(
        text_bytes=chars + said.chars,
        images=said.images,
        output_limit=request.max_tokens or request.model.max_tokens,
        window=request.model.context_window,
    )


@lru_cache(maxsize=8)
def _stable_bytes(text: str) -> int:
    """The size of the stable part of a prompt, which is mostly that of the last call."""
    return len(text.encode(errors="replace"))


class _Extent(Struct):
    """The bytes of a conversation's texts, and its images."""

    chars: int = 0
    images: int = 0

    def add(self, message: Message) -> None:
        self.chars += len(message.text.encode(errors="replace"))
        if isinstance(message, Assistant):
            self.chars += sum(len(block.thinking) for block in message.content if isinstance(block, Thinking))
            self.chars += sum(len(str(call.arguments)) + len(call.name) for call in message.calls)
        elif not isinstance(message.content, str):
            self.images += sum(isinstance(block, Image) for block in message.content)


def _end(tape: CallRecording) -> CallEnd:
    price = price_of(tape.request.model)
    if tape.message is not None:
        usage = tape.message.usage
        return CallEnd(usage=usage if usage.cost else structs.replace(usage, cost=cost_of(usage, price)))
    reason, error = (tape.failure.reason, tape.failure.message) if tape.failure else ("aborted", "")
    if tape.failure is not None and not tape.events:
        return CallEnd(reason=reason, error=error)
    # Cut off in the middle: input and partial output are billed, but the provider sent no count.
    usage = limits.estimate_usage(tape.size, tape.chars, price)
    return CallEnd(usage=usage, reason=reason, error=error, measured=False)


def answered_by_line(answered_by: str, missed: Sequence[MissedCall], zone: tzinfo) -> str:
    """`answered by Y; X was rate limited at 12:03`; empty when the first choice answered."""
    others = {each.ref: each for each in missed if each.ref != answered_by}
    if not answered_by or not others:
        return ""
    told = [
        f"{each.ref} {_SAID.get(each.reason, 'failed')} at {datetime.fromtimestamp(each.at / 1000, zone):%H:%M}"
        for each in others.values()
    ]
    return f"answered by {answered_by}; {', '.join(told)}"


def footer(usage: Usage, mode: str | None) -> str:
    """The optional usage line under an answer."""
    if mode not in ("tokens", "full", "on") or not usage.total_tokens:
        return ""
    text = f"{usage.prompt_tokens:,} tokens in, {usage.output:,} out"
    if mode == "tokens":
        return text
    cached = f", {usage.cache_read:,} from the cache" if usage.cache_read else ""
    return f"{text}{cached}, {dollars(usage.cost.total) if usage.cost else 'price unknown'}"


def explain_run(calls: Sequence[CallRow], zone: tzinfo) -> str:
    """`who_answered` for a finished run, from its calls."""
    answered = next((call.ref for call in reversed(calls) if call.state == "ok"), "")
    return answered_by_line(answered, [MissedCall(c.ref, c.reason, c.at) for c in calls if c.state == "failed"], zone)
