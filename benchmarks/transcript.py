"""What appending to and loading a transcript cost as it grows; exits 1 when either grows with the length.

python benchmarks/transcript.py
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from openclaw.core.messages import Assistant, Message, Text, ToolCall, ToolResult, User
from openclaw.sessions.files import TranscriptFile, load
from openclaw.sessions.transcript import TranscriptHeader, build_context

LENGTHS = (10, 1_000, 10_000)
APPENDS = 200
ROUNDS = 7
WORST = 3.0
HEADER = TranscriptHeader(id="benchmark", timestamp="2026-01-01T00:00:00.000Z")


def turn(number: int) -> tuple[Message, ...]:
    """A question, a tool call with its result, and an answer."""
    call = ToolCall(id=f"call_{number}", name="read", arguments={"path": f"notes/{number}.md"})
    return (
        User(content=f"What is in note {number}?", timestamp=number),
        Assistant(content=(Text("Let me look."), call), stop_reason="toolUse", timestamp=number),
        ToolResult(tool_call_id=call.id, tool_name="read", content=(Text("line of text\n" * 20),), timestamp=number),
        Assistant(content=(Text("It says the same thing twenty times."),), timestamp=number),
    )


def best(work: Callable[[], None], each: int) -> float:
    """Microseconds of CPU time for one of `each`, best of several rounds."""
    lowest = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        lowest = min(lowest, time.process_time() - start)
    return lowest / each * 1e6


def measure(path: Path, length: int) -> tuple[float, float]:
    """The cost of one append to a transcript of `length` entries, and of loading one of its entries."""
    messages = [message for number in range(length // 4 + 1) for message in turn(number)]
    transcript = TranscriptFile.create(path, HEADER)
    for message in messages[:length]:
        transcript.say(message, 1.0)
    transcript.close()

    # A short file is loaded several times a round: the CPU clock is too coarse for one.
    repeats = max(1, 2_000 // length)

    def loading() -> None:
        for _ in range(repeats):
            build_context(load(path).entries)

    per_entry = best(loading, length * repeats)
    transcript, _ = TranscriptFile.reopen(path, HEADER)

    def appending() -> None:
        for number in range(APPENDS):
            transcript.say(messages[number % 4], 1.0)

    per_append = best(appending, APPENDS)
    transcript.close()
    return per_append, per_entry


def main() -> int:
    with tempfile.TemporaryDirectory() as directory:
        measured = [measure(Path(directory) / f"{length}.jsonl", length) for length in LENGTHS]
    first_append, first_load = measured[0]
    print(f"{'entries':>8}  {'append µs':>10}  {'ratio':>6}  {'load µs/entry':>14}  {'ratio':>6}")
    for length, (append, loaded) in zip(LENGTHS, measured, strict=True):
        print(
            f"{length:>8}  {append:>10.1f}  {append / first_append:>6.2f}  {loaded:>14.2f}  {loaded / first_load:>6.2f}"
        )
    last_append, last_load = measured[-1]
    if last_append / first_append > WORST or last_load / first_load > WORST:
        print(f"the cost grows with the length: more than {WORST:g} times from the shortest to the longest")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
