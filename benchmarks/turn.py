"""One embedded turn against a model server on loopback: what the program costs beyond the model.

Run: python benchmarks/turn.py
"""

import asyncio
import resource
import tempfile
import time
import uuid
from contextlib import aclosing
from pathlib import Path

from openclaw.core.tool import ApprovalAnswer, ApprovalRequest
from openclaw.gateway.app import open_app
from openclaw.process.environment import Environment
from openclaw.process.tasks import SystemClock
from openclaw.runs.request import RunRequest
from openclaw.testing import TemporaryHome, calls, says
from openclaw.testing.server import MockModelServer

TURNS = 60


class Nobody:
    async def decide(self, request: ApprovalRequest) -> ApprovalAnswer:
        return ApprovalAnswer("deny")


async def main() -> None:
    with tempfile.TemporaryDirectory() as root:
        home = TemporaryHome(Path(root))
        (home.workspace / "note.txt").write_text("a note\n")
        replies = [reply for _ in range(TURNS) for reply in (calls("read", path="note.txt"), says("Read it. " * 40))]
        with MockModelServer(replies) as server:
            home.configure(server.settings())
            environment = Environment(environ=home.environ, home_dir=home.root, cwd=home.root)
            async with open_app(environment, clock=SystemClock(), approver=Nobody()) as app:
                spent: list[tuple[float, float]] = []
                for _ in range(TURNS):
                    wall, cpu = time.perf_counter(), time.thread_time()
                    turn = RunRequest(run_id=str(uuid.uuid4()), key=app.key(None, None), text="read the note")
                    async with aclosing(app.turns.run(turn, app.toolset())) as events:
                        async for _event in events:
                            pass
                    spent.append((time.perf_counter() - wall, time.thread_time() - cpu))
    print("a turn is two model calls and one tool call; CPU is of our own thread, the mock model's is not in it")
    print(f"{'turn':>6} {'wall ms':>9} {'CPU ms':>8}")
    for place in (0, 1, 9, 29, TURNS - 1):
        wall, cpu = spent[place]
        print(f"{place + 1:>6} {wall * 1000:>9.1f} {cpu * 1000:>8.1f}")
    early = min(cpu for _, cpu in spent[1:11])
    late = min(cpu for _, cpu in spent[-10:])
    print(f"last ten against first ten: x{late / early:.2f} (the history grows by four messages a turn)")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    asyncio.run(main())
