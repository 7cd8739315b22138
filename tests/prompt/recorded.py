"""Prompts and tool schemas of real runs: on channels, on the web page, at a terminal, of jobs, heartbeats, sub-agents.

One gateway in its own process serves them all. Golden files are made from these, and tests of sections look at them.
"""

import asyncio
import difflib
import json
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from openclaw.devices.signature import DeviceIdentity
from openclaw.prompt.machine import CHECKOUT
from openclaw.protocol.client import GatewayClient
from openclaw.protocol.connect_request import ConnectOptions
from openclaw.protocol.scopes import SCOPES
from openclaw.protocol.websocket import connect
from openclaw.testing import TemporaryHome, calls, says
from openclaw.testing.server import MockModelServer
from tests.channels.telegram.server import TOKEN, TelegramServer
from tests.e2e.gateway_process import GatewayProcess

GOLDEN = Path(__file__).parents[1] / "golden" / "prompts"
MAILBOX = Path(__file__).parents[2] / "examples" / "mailbox"
PATIENCE = 60.0
SPAWN = "start-one"
TASK = "Compare three marinas."
MARKERS = {"sub-agent": TASK, "heartbeat": "The boat moved."}
"""What the message of a scenario holds, where that is not its name."""
PREVIEWS: dict[str, dict[str, Any]] = {
    "sandboxed": {"agentId": "boxed", "channel": "telegram"},
    "none": {"mode": "none", "channel": "webchat"},
}
"""Scenarios that need a container, or a caller of another kind: what would be sent."""

NAMES = (
    "telegram-direct",
    "telegram-group",
    "mailbox-group-mentioned",
    "mailbox-guest",
    "webchat",
    "terminal",
    "cron",
    "heartbeat",
    "sub-agent",
    "gpt-5",
    "tiny-model",
    "sandboxed",
    "none",
)


class RecordedRequest(Struct, frozen=True):
    """What a model was sent, the machine's own names taken out."""

    system: str
    tools: dict[str, dict[str, Any]]
    messages: list[str]

    @property
    def schema_chars(self) -> int:
        return sum(len(name) + _chars(tool) for name, tool in self.tools.items())

    @property
    def file_chars(self) -> int:
        """The workspace files, with their headings and fences."""
        found = re.findall(r"(?ms)^## [^\n]+\n<<<WORKSPACE_FILE .*?^<<<END_WORKSPACE_FILE[^\n]*\n", self.system)
        return sum(map(len, found))

    def section(self, heading: str) -> str:
        """The text under a heading of ours; empty when it is not there."""
        outside = re.sub(r"(?ms)^<<<WORKSPACE_FILE .*?^<<<END_WORKSPACE_FILE[^\n]*\n", "", self.system)
        found = re.search(rf"(?ms)^{re.escape(heading)}\n(.*?)(?=^#+ |\Z)", outside)
        return found[1] if found else ""


def _chars(tool: dict[str, Any]) -> int:
    return len(tool["description"]) + len(json.dumps(tool["parameters"], separators=(",", ":"), ensure_ascii=False))


def settings(model: MockModelServer, telegram: TelegramServer, root: Path) -> dict[str, Any]:
    given = model.settings(contextWindow=200_000)
    mock = given["models"]["providers"]["mock"]
    mock["models"].append({**mock["models"][0], "id": "tiny", "contextWindow": 8_192})
    openai = {**mock, "models": [{**mock["models"][0], "id": "gpt-5.2", "contextWindow": 400_000}]}
    given["models"]["providers"]["openai"] = openai
    given["agents"]["defaults"] |= {"userTimezone": "Europe/Berlin", "heartbeat": {"every": "24h", "target": "none"}}
    given["agents"]["list"] = [
        {"id": "main"},
        {"id": "boxed", "sandbox": {"mode": "all"}, "heartbeat": {"every": "0m"}},
    ]
    box = {"config": {"directory": str(root / "post"), "seconds": 0.05}}
    return {
        **given,
        "plugins": {"load": {"paths": [str(MAILBOX)]}, "entries": {"mailbox": box}},
        # An address that speaks, so that there is a voice on every machine.
        "tts": {"provider": "openai", "providers": {"openai": {"baseUrl": "http://127.0.0.1:9"}}},
        "commands": {"ownerAllowFrom": ["telegram:7", "mailbox:ada"], "ownerDisplaySecret": "s3cret"},
        "channels": {
            "telegram": {
                "botToken": TOKEN,
                "apiRoot": telegram.url,
                "groups": {"*": {"requireMention": False}},
                "groupAllowFrom": ["*"],
                "streaming": {"mode": "off"},
            },
            "mailbox": {"groups": {"club": {}}, "groupAllowFrom": ["eve"], "dmPolicy": "open", "allowFrom": ["*"]},
        },
    }


class Model(MockModelServer):
    """Says a word to everything, and starts a sub-agent when it is told to."""

    def __init__(self) -> None:
        super().__init__([says("Fine.")])

    def _next(self, request: dict[str, Any]) -> tuple[Any, ...]:
        super()._next(request)
        last = request["messages"][-1]
        return (calls("sessions_spawn", task=TASK),) if SPAWN in text_of(last) else (says("Fine."),)


def text_of(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


class Recorder:
    """Talks to a gateway and takes down what its model was sent."""

    def __init__(self, home: TemporaryHome, model: Model, telegram: TelegramServer) -> None:
        self.home, self.model, self.telegram = home, model, telegram

    async def record(self, gateway: GatewayProcess) -> dict[str, RecordedRequest]:
        club = {"id": -5, "type": "supergroup", "title": "Boats"}
        self.telegram.says("telegram-direct")
        self.telegram.says("telegram-group", chat=club)
        self._letter("club@eve", "@bot mailbox-group-mentioned")
        self._letter("eve", "mailbox-guest")
        async with gateway.client() as client, page(gateway) as web:
            await web.call("chat.send", {"sessionKey": "web", "message": "webchat", "idempotencyKey": "webchat"})
            for name, more in {
                "terminal": {"cwd": str(self.home.root)},
                "gpt-5": {"model": "openai/gpt-5.2"},
                "tiny-model": {"model": "mock/tiny"},
                SPAWN: {},
            }.items():
                await client.call("agent", {"sessionKey": name, "message": name, "idempotencyKey": name, **more})
            job = {
                "name": "prices",
                "schedule": {"kind": "every", "everyMs": 86_400_000},
                "payload": {"kind": "agentTurn", "message": "cron"},
                "sessionTarget": "isolated",
                "wakeMode": "now",
                "delivery": {"mode": "none"},
            }
            made = await client.call("cron.add", job)
            await client.call("cron.run", {"id": made["id"], "mode": "force"})
            found = {name: await self._request(name) for name in NAMES if name not in (*PREVIEWS, "heartbeat")}
            (self.home.workspace / "HEARTBEAT.md").write_text("- Look after the boat.\n")
            await client.call("wake", {"mode": "now", "text": "The boat moved."})
            found["heartbeat"] = await self._request("heartbeat")
            for name, params in PREVIEWS.items():
                found[name] = self._cleaned(await self._preview(client, **params))
        return found

    def _letter(self, sender: str, text: str) -> None:
        inbox = self.home.root / "post" / "inbox"
        inbox.mkdir(parents=True, exist_ok=True)
        (inbox / f"{sender}--1.part").write_text(text)
        (inbox / f"{sender}--1.part").rename(inbox / f"{sender}--1.txt")

    async def _request(self, name: str) -> RecordedRequest:
        """The first request that answers the message of a scenario."""
        marker = MARKERS.get(name, name)
        async with asyncio.timeout(PATIENCE):
            while True:
                for request in self.model.requests:
                    if request["messages"][-1]["role"] == "user" and marker in text_of(request["messages"][-1]):
                        return self._cleaned(request)
                await asyncio.sleep(0.02)

    async def _preview(self, client: GatewayClient, **params: Any) -> dict[str, Any]:
        found = await client.call("prompt.preview", params)
        system = "\n".join(part for part in (found["prompt"]["stable"], found["prompt"]["dynamic"]) if part)
        return {
            "messages": [{"role": "system", "content": system}],
            "tools": [{"function": tool} for tool in found["tools"]],
        }

    def _cleaned(self, request: dict[str, Any]) -> RecordedRequest:
        messages = [clean(text_of(each), self.home.root) for each in request["messages"]]
        tools = {tool["function"]["name"]: tool["function"] for tool in request.get("tools", ())}
        return RecordedRequest(system=messages[0], tools=tools, messages=messages[1:])


def clean(text: str, root: Path) -> str:
    """Without what differs from machine to machine."""
    for name, stand_in in ((str(root), "/home/ada"), (str(CHECKOUT), "/opt/openclaw")):
        text = text.replace(name, stand_in)
    text = text.replace(f"host={socket.gethostname()} ", "host=attic ")
    text = re.sub(r"\| os=.*? \| python=\S+ ", "| os=Linux (x86_64) | python=3 ", text)
    text = re.sub(r"\| shell=\S+ ", "| shell=bash ", text)
    return re.sub(r'id="[0-9a-f]{16}"', 'id="5eedf00d5eedf00d"', text)


@asynccontextmanager
async def page(gateway: GatewayProcess) -> AsyncIterator[GatewayClient]:
    """A connection like the web page's: a browser that is a device of the owner."""
    card = ConnectOptions(version="1", platform="web", mode="webchat", scopes=SCOPES, token=gateway.token)
    async with connect(f"ws://127.0.0.1:{gateway.port}", card, DeviceIdentity(bytes(32))) as client:
        yield client


def record_all(root: Path) -> dict[str, RecordedRequest]:
    """Every scenario, through one gateway."""
    home = TemporaryHome(root)
    with Model() as model, TelegramServer() as telegram:
        home.configure(settings(model, telegram, root))
        with GatewayProcess(home) as gateway:
            return asyncio.run(Recorder(home, model, telegram).record(gateway))


# Golden files.


def golden_files(found: dict[str, RecordedRequest]) -> dict[str, str]:
    """The golden files of all scenarios, by name: each prompt, and the schemas and sizes beside it."""
    files = {}
    for name, request in found.items():
        files[f"{name}.md"] = request.system + "\n"
        sizes = {"instructions": len(request.system) - request.file_chars, "files": request.file_chars}
        numbers = {**sizes, "schemas": request.schema_chars, "tools": sorted(request.tools)}
        files[f"{name}.json"] = json.dumps(numbers, indent=2) + "\n"
    direct = dict(sorted(found["telegram-direct"].tools.items()))
    files["tools.json"] = json.dumps(direct, indent=1, ensure_ascii=False) + "\n"
    return files


def drift(files: dict[str, str]) -> str:
    """How the golden files differ from these; empty when they do not."""
    differences = []
    kept = {path.name: path.read_text(encoding="utf-8") for path in GOLDEN.iterdir()}
    for name in sorted({*files, *kept}):
        was, now = kept.get(name, ""), files.get(name, "")
        if was != now:
            lines = difflib.unified_diff(
                was.splitlines(), now.splitlines(), f"golden/{name}", f"now/{name}", lineterm="", n=2
            )
            differences += [*lines, "(accept with scripts/prompt-snapshots gen)"]
    return "\n".join(differences)
