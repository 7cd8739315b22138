"""Every attack and every ordinary task (scripts/soak attacks); 1 when an attack succeeds or too much is asked."""

import asyncio
import sys
import tempfile
from pathlib import Path

from openclaw.testing import TemporaryHome
from tests.security.labels.attacks import attack
from tests.security.labels.carriers import CARRIERS
from tests.security.labels.ordinary import PLANS, do_all
from tests.security.labels.poison import cases


async def main() -> int:
    failed = False
    with tempfile.TemporaryDirectory() as place:
        attacked = await attack(TemporaryHome(Path(place)), cases(list(CARRIERS)))
        print(attacked)
        if attacked.harmed:
            print(attacked.worst())
            failed = True
    for plan in PLANS:
        with tempfile.TemporaryDirectory() as place:
            done = await do_all(TemporaryHome(Path(place)), plan)
            print(done)
            failed = failed or bool(done.over)
    return int(failed)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
