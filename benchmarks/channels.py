"""What channels cost a gateway: a message beyond its turn, an idle account, the start, and what is loaded for them.

Run: python benchmarks/channels.py [--quick]
"""

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from openclaw.testing import TemporaryHome, says
from openclaw.testing.server import MockModelServer
from tests.channels.discord import server as discord
from tests.channels.email import server as email
from tests.channels.irc import server as irc
from tests.channels.matrix import server as matrix
from tests.channels.signal import server as signal
from tests.channels.slack import server as slack
from tests.channels.telegram import server as telegram
from tests.channels.webhook import server as webhook
from tests.channels.whatsapp import server as whatsapp
from tests.e2e.gateway_process import GatewayProcess, cpu, pss
from tests.test_start import READY

PLATFORMS = ("telegram", "matrix", "discord", "slack", "signal", "email", "whatsapp", "irc", "webhook")
MOST_MIB = 2.0
"""What an idle account may hold."""
WARM = 5
"""Turns before anything is counted."""
BATCHES = 3


class Servers:
    """The platforms on loopback, and the sections that connect a gateway with them."""

    def __init__(self, stack: ExitStack, bots: int = 1) -> None:
        self.telegram = [stack.enter_context(telegram.TelegramServer(f"{42 + at}:test-token")) for at in range(bots)]
        self.matrix = stack.enter_context(matrix.MatrixServer())
        self.discord = stack.enter_context(discord.DiscordServer())
        self.slack = stack.enter_context(slack.SlackServer())
        self.signal = stack.enter_context(signal.SignalServer())
        self.email = stack.enter_context(email.MailboxServer())
        self.whatsapp: whatsapp.CloudApi = stack.enter_context(whatsapp.CloudApi())
        self.irc = stack.enter_context(irc.IrcTestServer())
        self.webhook: webhook.WebhookProgram = stack.enter_context(webhook.WebhookProgram())

    def section(self, name: str, bots: int = 1) -> dict[str, Any]:
        match name:
            case "telegram":
                first, *others = [{"botToken": each.token, "apiRoot": each.url} for each in self.telegram[:bots]]
                return {**first, "accounts": {f"a{at}": each for at, each in enumerate(others)}}
            case "email":
                return self.email.section
            case "whatsapp":
                return self.whatsapp.section
            case "irc":
                return {"server": self.irc.address, "nick": irc.NICK, "password": irc.PASSWORD}
            case "webhook":
                return {"secret": webhook.SECRET, "url": f"{self.webhook.url}/take"}
            case "matrix":
                return {"homeserver": self.matrix.url, "accessToken": matrix.TOKEN, "autoJoin": "always"}
            case "signal":
                return {"account": signal.ME, "httpUrl": self.signal.url}
            case "slack":
                return {"botToken": slack.TOKEN, "appToken": slack.APP_TOKEN, "apiRoot": self.slack.url}
            case _:
                return {"token": discord.TOKEN, "apiRoot": self.discord.url}

    def connected(self, name: str, bots: int = 1) -> None:
        """Waits until every account of a platform listens."""
        match name:
            case "telegram":
                for each in self.telegram[:bots]:
                    each.called("getUpdates")
            case "matrix":
                self.matrix.until(lambda: self.matrix.called("sync") >= 2)
            case "email":
                self.email.listened()
            case "whatsapp":
                self.whatsapp.until(lambda: self.whatsapp.looked)
            case "irc":
                self.irc.until(lambda: self.irc.connections)
            case "webhook":
                pass  # nobody is connected: it is called
            case "signal":
                self.signal.until(lambda: self.signal.listeners)
            case "slack":
                self.slack.until(lambda: self.slack.connections)
            case _:
                with self.discord.changed:
                    assert self.discord.changed.wait_for(lambda: bool(self.discord.identified), 60.0)

    def forget(self) -> None:
        for each in self.telegram:
            each.calls.clear()
        self.matrix.calls.clear()
        self.discord.identified.clear()
        self.slack.connections = self.signal.listeners = self.whatsapp.looked = 0
        self.email.commands.clear()


def configure(home: TemporaryHome, model: MockModelServer, channels: dict[str, Any]) -> None:
    owners = ["telegram:7", "matrix:@ada:test"]
    home.configure({**model.settings(), "channels": channels, "commands": {"ownerAllowFrom": owners}})


@contextmanager
def running(model: MockModelServer, channels: dict[str, Any]) -> Iterator[tuple[GatewayProcess, int]]:
    """A gateway with these channels on a new home, and its process id."""
    with tempfile.TemporaryDirectory() as root:
        home = TemporaryHome(Path(root))
        configure(home, model, channels)
        with GatewayProcess(home) as gateway:
            assert gateway.process is not None
            yield gateway, gateway.process.pid
            gateway.stop()


def measure(pid: int, ask: Callable[[int], None], turns: int) -> float:
    """CPU milliseconds of one turn that `ask` begins and waits for: the least of several batches."""
    for number in range(1, WARM + 1):
        ask(number)
    best, done = float("inf"), WARM
    for _ in range(BATCHES):
        used = cpu(pid)
        for number in range(done + 1, done + turns + 1):
            ask(number)
        best, done = min(best, (cpu(pid) - used) / turns * 1000), done + turns
    return best


def messages(model: MockModelServer, servers: Servers, turns: int) -> None:
    """The same turn over the socket and over channels, in one process."""
    channels = {name: servers.section(name) for name in ("telegram", "matrix")}
    for each in channels.values():
        each["streaming"] = {"mode": "off"}
    with running(model, channels) as (gateway, pid), asyncio.Runner() as loop:
        for name in channels:
            servers.connected(name)
        client = gateway.client()
        here = loop.run(client.__aenter__())

        def by_telegram(number: int) -> None:
            servers.telegram[0].says("hello")
            servers.telegram[0].hears(number)

        def by_matrix(number: int) -> None:
            servers.matrix.says("hello")
            servers.matrix.hears(number)

        def by_socket(number: int) -> None:
            params = {"message": "hello", "sessionKey": "bench", "idempotencyKey": f"turn-{number}"}
            loop.run(here.call("agent", params, final=True, timeout=120))

        ways = {"web socket": by_socket, "telegram": by_telegram, "matrix": by_matrix}
        rows = [(name, measure(pid, ask, turns)) for name, ask in ways.items()]
        loop.run(client.__aexit__(None, None, None))
    print(f"{'one turn':<26} {'CPU ms':>8} {'beyond the socket':>18}")
    for name, took in rows:
        print(f"{name:<26} {took:>8.1f} {took - rows[0][1]:>18.1f}")


def accounts(model: MockModelServer, servers: Servers, many: int) -> None:
    """Memory of accounts that only listen, of every platform."""
    print(f"\n{'idle accounts':<26} {'PSS MiB':>8} {'KiB an account':>18}")
    for name in PLATFORMS:
        one = 0.0
        for bots in (1, many):
            section = servers.section(name, bots)
            if name != "telegram":
                section |= {"accounts": {f"a{at}": servers.section(name) for at in range(bots - 1)}}
            with running(model, {name: section}) as (gateway, pid):
                asyncio.run(all_connected(gateway, name, bots))
                held = pss(pid)
            one = one or held
            each = (held - one) / (bots - 1) if bots > 1 else 0.0
            print(f"{f'{bots} of {name}':<26} {held:>8.1f} {f'{each * 1024:.0f}' if bots > 1 else '':>18}")
            assert each <= MOST_MIB, f"an idle account of {name} holds {each:.1f} MiB"


async def all_connected(gateway: GatewayProcess, name: str, count: int) -> None:
    async with gateway.client() as client, asyncio.timeout(300):
        while True:
            status = await client.call("channels.status", {})
            found = status["channelAccounts"].get(name, [])
            if sum(each["connected"] for each in found) >= count:
                return
            await asyncio.sleep(0.5)


def starts(model: MockModelServer, servers: Servers, rounds: int) -> None:
    """CPU until every configured account listens: the least of several starts."""
    print(f"\n{'start with':<26} {'CPU ms':>8} {'beyond none':>18}  loaded for channels")
    none = 0.0
    for names in ((), *((name,) for name in PLATFORMS), PLATFORMS):
        channels = {name: servers.section(name) for name in names}
        best = float("inf")
        for _ in range(rounds):
            servers.forget()
            with running(model, channels) as (_gateway, pid):
                for name in names:
                    servers.connected(name)
                best = min(best, cpu(pid) * 1000)
        none = none or best
        loaded = ", ".join(loaded_for(model, channels)) or "nothing"
        print(f"{' + '.join(names) or 'no channel':<26} {best:>8.0f} {best - none:>18.0f}  {loaded}")


def loaded_for(model: MockModelServer, channels: dict[str, Any]) -> list[str]:
    """The platforms of which a gateway that is ready has loaded anything but the settings."""
    with tempfile.TemporaryDirectory() as root:
        home = TemporaryHome(Path(root))
        configure(home, model, channels)
        command = [sys.executable, "-c", READY]
        done = subprocess.run(command, env=home.environ, capture_output=True, check=True, text=True)
    modules = json.loads(done.stdout.rpartition("@@")[2].splitlines()[0])
    return [name for name in PLATFORMS if f"openclaw.channels.{name}.channel" in modules]


def main() -> None:
    quick = "--quick" in sys.argv
    with ExitStack() as stack:
        model = stack.enter_context(MockModelServer([says("an answer of ten words or so, to be fair")]))
        servers = Servers(stack, bots=6 if quick else 11)
        messages(model, servers, 10 if quick else 30)
        accounts(model, servers, len(servers.telegram))
        starts(model, servers, 1 if quick else 3)


if __name__ == "__main__":
    main()
