"""Detects loops (the same calls, the same results, no progress), and caps the size of tool results."""

import hashlib
from collections import deque
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct, structs

from openclaw.core.messages import Image, Text
from openclaw.core.tool import Output

# The size of results.


def result_cap(context_window: int) -> int:
    """The maximum characters of one tool result, by the model's context window."""
    by_size = 64_000 if context_window >= 200_000 else 32_000 if context_window >= 100_000 else 16_000
    return max(1_000, min(by_size, int(context_window * 0.3 * 4)))


def shorten(output: Output, cap: int) -> Output:
    """`output` truncated to `cap` characters, with a note of how much is missing."""
    total = sum(len(block.text) for block in output.content if isinstance(block, Text))
    if total <= cap:
        return output
    if output.end_matters:
        text = output.text
        note = f"[... {len(text) - cap} earlier characters truncated; rerun with narrower args if needed]"
        images = tuple(block for block in output.content if isinstance(block, Image))
        return structs.replace(output, content=(Text(f"{note}\n{text[-cap:]}"), *images))
    left = cap
    content: list[Text | Image] = []
    for block in output.content:
        if isinstance(block, Image):
            content.append(block)
        elif left > 0:
            content.append(Text(block.text[:left]))
            left -= len(block.text)
    note = f"[... {total - cap} more characters truncated; rerun with narrower args if needed]"
    return structs.replace(output, content=(*content, Text(note)))


# Loops.

UNKNOWN_TOOL_LIMIT = 10
AFTER_COMPACTION = 3
"""How many calls after a compaction are watched: if all are the same with the same result, the loop persists."""


class RepeatLimits(Struct, frozen=True, kw_only=True):
    """When to warn the model and when to stop it."""

    enabled: bool = True
    history: int = 30
    warn: int = 10
    block: int = 20
    breaker: int = 30


class NoRepeat(Struct, frozen=True): ...


class RepeatWarning(Struct, frozen=True):
    note: str


class RepeatBlocked(Struct, frozen=True):
    why: str


Verdict = NoRepeat | RepeatWarning | RepeatBlocked


class _Seen(Struct, frozen=True):
    signature: str
    outcome: str
    tool: str


def signature(tool: str, arguments: Mapping[str, Any]) -> str:
    data = tool.encode() + b"\0" + msgspec.json.encode(arguments, order="deterministic")
    return hashlib.sha256(data).hexdigest()[:16]


class RepeatDetector:
    """The recent calls of one run, and whether the next one is a loop."""

    def __init__(self, limits: RepeatLimits) -> None:
        self._limits = limits
        self._seen: deque[_Seen] = deque(maxlen=limits.history + limits.breaker)
        self._unknown = 0
        self._fresh: list[_Seen] | None = None
        self.persisted = False
        """Whether a loop continued after a compaction."""

    def compacted(self) -> None:
        """The conversation was just compacted; watch whether an earlier loop continues."""
        self._fresh = [] if self._limits.enabled else None

    def unknown(self, tool: str) -> Verdict:
        """Counts a call of a tool that does not exist."""
        self._unknown += 1
        if self._limits.enabled and self._unknown >= UNKNOWN_TOOL_LIMIT:
            return RepeatBlocked(f"{self._unknown} calls to tools that do not exist, {tool} the last")
        return NoRepeat()

    def before(self, tool: str, arguments: Mapping[str, Any]) -> Verdict:
        """Whether the next call may run."""
        if not self._limits.enabled or len(self._seen) + 1 < min(
            self._limits.warn, self._limits.block, self._limits.breaker
        ):
            return NoRepeat()
        mine = signature(tool, arguments)
        recent = list(self._seen)[-self._limits.history :]
        same = [seen for seen in recent if seen.signature == mine]
        stale = _trailing_equal([seen.outcome for seen in same])
        if stale >= self._limits.block:
            return RepeatBlocked(
                f"{tool} was called {stale} times with these arguments and gave the same result each time"
            )
        if self._stagnant() >= self._limits.breaker:
            return RepeatBlocked(f"the last {self._limits.breaker} calls brought nothing new")
        alternating = self._alternating(mine)
        if alternating >= self._limits.block and self._stagnant() >= self._limits.block:
            return RepeatBlocked(f"two calls have alternated {alternating} times without progress")
        if len(same) >= self._limits.warn:
            return RepeatWarning(
                f"{tool} has been called {len(same) + 1} times with the same arguments. Try something else."
            )
        if alternating >= self._limits.warn:
            return RepeatWarning(f"Two calls have alternated {alternating} times. Try something else.")
        if self._churning(tool):
            return RepeatWarning(f"Variations of {tool} keep giving the same result. Try something else.")
        return NoRepeat()

    def after(self, tool: str, arguments: Mapping[str, Any], output: Output) -> None:
        # Without what differs every time: durations, ids.
        outcome = f"{output.is_error}\0{(output.details or {}).get('exitCode')}\0{output.text}"
        hashed = hashlib.sha256(outcome.encode(errors="replace")).hexdigest()[:16]
        seen = _Seen(signature(tool, arguments), hashed, tool)
        self._seen.append(seen)
        if self._fresh is not None:
            self._fresh.append(seen)
            if len(self._fresh) == AFTER_COMPACTION:
                self.persisted = len(set(map(_fact, self._fresh))) == 1
                self._fresh = None

    def _stagnant(self) -> int:
        """How many of the latest calls only repeated a call and result already seen."""
        seen_before: set[tuple[str, str]] = set()
        run = 0
        for seen in self._seen:
            fact = (seen.signature, seen.outcome)
            run = run + 1 if fact in seen_before else 0
            seen_before.add(fact)
        return run

    def _alternating(self, upcoming: str) -> int:
        trail = [*(seen.signature for seen in self._seen), upcoming]
        if len(trail) < 3 or trail[-1] == trail[-2]:
            return 0
        count = 2
        while count < len(trail) and trail[-count - 1] == trail[-count + 1]:
            count += 1
        return count

    def _churning(self, tool: str) -> bool:
        recent = [seen for seen in self._seen if seen.tool == tool][-self._limits.warn :]
        if len(recent) < self._limits.warn or len({seen.outcome for seen in recent}) != 1:
            return False
        counts = [sum(1 for seen in recent if seen.signature == one) for one in {seen.signature for seen in recent}]
        return len(counts) >= 2 and min(counts) >= 3


def _fact(seen: _Seen) -> tuple[str, str]:
    return seen.signature, seen.outcome


def _trailing_equal(outcomes: list[str]) -> int:
    count = 0
    for one in reversed(outcomes):
        if one != outcomes[-1]:
            break
        count += 1
    return count
