"""A gateway without the daemon role, in a process of its own: what a command starts inside itself, here with a socket.

It says its port when it is ready, and ends with its standard input.
"""

import asyncio
import subprocess
import sys

from openclaw.config.load import load
from openclaw.gateway.exposure import ExposureOptions, decide, host_rules, listen, shared_secret
from openclaw.gateway.launch import Control, GatewayLaunch
from openclaw.gateway.serve import compose
from openclaw.gateway.server import serving
from openclaw.process.environment import Environment
from openclaw.process.tasks import SystemClock
from tests.commandline import PATIENCE
from tests.e2e.gateway_process import GatewayProcess


class SecondGateway(GatewayProcess):
    """Beside a daemon on the same home, or before one is there."""

    def start(self, port: int = 0) -> None:
        with (self.home.root / "second.out").open("ab") as log:
            self._second = subprocess.Popen(
                [sys.executable, "-m", "tests.e2e.second_gateway"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=self.home.environ,
            )
        assert self._second.stdout is not None
        told = self._second.stdout.readline()
        assert told, self.output()
        self.port = int(told)

    def stop(self, *, at_once: bool = False) -> int:
        self._second.communicate(timeout=PATIENCE)
        return self._second.returncode

    def kill(self) -> None:
        self._second.kill()
        self._second.communicate(timeout=PATIENCE)

    def __exit__(self, *_: object) -> None:
        if self._second.poll() is None:
            self.kill()

    def output(self) -> str:
        return (self.home.root / "second.out").read_text(errors="replace")


async def main() -> None:
    environment = Environment.of_process()
    loaded = load(environment.home, environment.environ)
    settings, wishes = loaded.config.gateway, ExposureOptions(port=0)
    exposure = decide(settings, loaded.variables, wishes)
    async with serving(listen(exposure.hosts, 0), host_rules(settings, (), exposure.proxy)) as server:
        launch = GatewayLaunch(
            environment=environment,
            wishes=wishes,
            loaded=loaded,
            exposure=exposure,
            secret=shared_secret(exposure, environment.home.state),
            server=server,
            control=Control(),
            clock=SystemClock(),
            safe=False,
            background=False,
        )
        async with compose(launch) as parts:
            server.front.offer(parts)
            print(server.port, flush=True)
            await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
