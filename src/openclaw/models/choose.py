"""Which model is asked, in which order, and what follows a failure. Pure; times are seconds."""

from collections.abc import Sequence

from msgspec import Struct

from openclaw.models.refs import ModelRef

RATE_LIMIT_ATTEMPTS = 10
TRANSIENT_RETRIES = 8
TRANSIENT_WINDOW = 90.0
"""How long after the last success transient failures are sat out."""
FIRST_WAIT = 1.0
LONGEST_WAIT = 30.0
LONGEST_RETRY_AFTER = 60.0
"""A provider that asks for more than this is left for the next one."""

PROBE_MARGIN = 120.0
PROBE_EVERY = 30.0

TRANSIENT = frozenset({"overloaded", "timeout", "server_error", "empty_response", "no_error_details"})
ROTATES_ONCE = frozenset({"rate_limit", "overloaded"})
ROTATES_ALWAYS = frozenset({"auth", "auth_permanent", "billing"})

_FINAL = {
    "aborted": "stopped by the user",
    "context_overflow": "the conversation is too long for the model: compact it or start a new session",
    "format": "the provider did not accept the request; another model would get the same one",
    "refused": "the model declined to answer",
    "run_timeout": "the run took too long",
}


class Retry(Struct, frozen=True):
    """The same model with the same credential, after a wait."""

    wait: float


class NextProfile(Struct, frozen=True):
    """The same model with the next credential."""


class NextCandidate(Struct, frozen=True):
    """The next model."""


class StopTrying(Struct, frozen=True):
    why: str


Step = Retry | NextProfile | NextCandidate | StopTrying


class FailoverState(Struct, frozen=True, kw_only=True):
    """Where a turn stands when a call has failed."""

    attempts: int = 1
    """Calls made to this candidate with this credential, the failed one included."""
    since_success: float = 0.0
    """Since the last call that worked, or since the turn began."""
    rotations: int = 0
    """Credentials already given up on for this candidate."""
    profiles_left: int = 0
    candidates_left: int = 0
    retry_after: float | None = None
    """What the provider asked for."""
    jitter: float = 0.0
    """A random number from 0 to 1, so that many clients do not return in step."""


def candidates(
    requested: ModelRef,
    *,
    primary: ModelRef | None = None,
    fallbacks: Sequence[ModelRef] = (),
    override: Sequence[ModelRef] | None = None,
    strict: bool = False,
) -> tuple[ModelRef, ...]:
    """The models of a turn, in order.

    `override` replaces the configured fallbacks and is used exactly as given; an empty one, like `strict` (the user
    picked this very model), leaves only the requested model.
    """
    if override is not None:
        chain: tuple[ModelRef, ...] = (requested, *override)
    elif strict:
        chain = (requested,)
    else:
        chain = (requested, *fallbacks, *((primary,) if primary else ()))
    seen: dict[str, ModelRef] = {}
    for ref in chain:
        seen.setdefault(ref.key, ref)
    return tuple(seen.values())


def backoff(nth: int, jitter: float, retry_after: float | None = None) -> float:
    """How long to wait before the `nth` retry, counted from 1."""
    wait = min(FIRST_WAIT * 2.0 ** min(nth - 1, 10) + jitter, LONGEST_WAIT)
    return max(wait, retry_after or 0.0)


def next_step(reason: str, state: FailoverState) -> Step:
    """What to do after a call failed for `reason`."""
    if reason in _FINAL:
        return StopTrying(_FINAL[reason])
    if _worth_waiting(reason, state):
        return Retry(backoff(state.attempts, state.jitter, state.retry_after))
    may_rotate = reason in ROTATES_ALWAYS or (reason in ROTATES_ONCE and state.rotations == 0)
    if may_rotate and state.profiles_left > 0:
        return NextProfile()
    if state.candidates_left > 0:
        return NextCandidate()
    return StopTrying("there is no other model to try")


def _worth_waiting(reason: str, state: FailoverState) -> bool:
    if state.retry_after is not None and state.retry_after > LONGEST_RETRY_AFTER:
        return False
    if reason == "rate_limit":
        return state.attempts < RATE_LIMIT_ATTEMPTS
    if reason not in TRANSIENT or state.attempts > TRANSIENT_RETRIES:
        return False
    wait = backoff(state.attempts, state.jitter, state.retry_after)
    return state.since_success + wait <= TRANSIENT_WINDOW


def may_try_resting(
    reason: str,
    *,
    is_primary: bool,
    ends_in: float,
    since_probe: float | None,
    probed_this_run: bool,
    sibling: bool = False,
) -> bool:
    """Whether to call a model although every credential of its provider must rest.

    `reason` is why they rest, `ends_in` when the first returns, `since_probe` when the provider was last probed.
    `sibling` says that the rest is for another model of the provider.
    """
    if reason in ("auth", "auth_permanent"):
        return False
    if sibling and reason != "billing":
        return True
    throttled = probed_this_run or (since_probe is not None and since_probe < PROBE_EVERY)
    if not is_primary or throttled:
        return False
    return reason == "billing" or ends_in <= PROBE_MARGIN


class CandidateFailed(Struct, frozen=True):
    """One candidate that did not answer."""

    ref: str
    reason: str
    error: str = ""


def exhausted(failures: Sequence[CandidateFailed], back_in: float | None = None) -> str:
    """What to tell a person when every model failed."""
    if len(failures) == 1:
        text = f"{failures[0].ref} did not answer: {failures[0].error or failures[0].reason}"
    else:
        listed = "; ".join(f"{item.ref}: {item.error or item.reason} ({item.reason})" for item in failures)
        text = f"none of {len(failures)} models answered: {listed}"
    return f"{text}. The first is available again in {span(back_in)}" if back_in else text


def span(seconds: float) -> str:
    """A length of time as a person says it."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{round(seconds / 3600)} h"
