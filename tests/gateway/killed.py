"""A process that, for every line it reads, starts a child that runs turns until it is killed.

The child says its process id, then the number of every message it has written down, and a 0 for anything else that
happens. Starting it by a fork makes each start quick.
"""

import asyncio
import itertools
import os
import sys
from pathlib import Path

import openclaw.tools.build  # noqa: F401  (imported before the fork)
from openclaw.process.tasks import SystemClock
from openclaw.runs.request import RecordedEvent
from openclaw.testing import Heard, ScriptedModel, TemporaryHome, ask, calls, says


class Telling(list[object]):
    def append(self, event: object) -> None:
        # One write: half a line would be the last of a child that is killed.
        os.write(1, b"%d\n" % (event.number if isinstance(event, RecordedEvent) else 0))


async def run_turns(root: Path) -> None:
    home = TemporaryHome(root)
    model = ScriptedModel()
    async with home.assistant(model, clock=SystemClock()) as app:
        for turn in itertools.count():
            writes = [calls("write", path=f"{turn}-{n}.txt", content="x" * 5000) for n in range(3)]
            model.script([says("Let me see. " * 20), *writes], calls("read", path=f"{turn}-0.txt"), says("Done. " * 50))
            heard = Heard()
            heard.events = Telling()  # type: ignore[assignment]
            await ask(app, f"question {turn}", into=heard)


if __name__ == "__main__":
    for _ in sys.stdin:
        child = os.fork()
        if not child:
            os.write(1, b"%d\n" % os.getpid())
            asyncio.run(run_turns(Path(sys.argv[1])))
        os.waitpid(child, 0)
        os.write(1, b"gone\n")
