"""What Codex is handed on its happy path: the parameters of threads and turns, and the layers its model reads.

A gateway with real channels talks to a scripted app-server, which takes down what it hears. What Codex adds itself is
not in it, except for the instructions of its model, which are pinned in a file.
"""

import asyncio
import json
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from openclaw.testing import TemporaryHome
from tests.channels.discord import server as discord_server
from tests.channels.discord.server import DiscordServer
from tests.channels.telegram.server import TOKEN, TelegramServer
from tests.e2e.gateway_process import GatewayProcess
from tests.plugins.support import DEADLINE
from tests.prompt.recorded import clean

MODEL = "gpt-5.5"
FIXTURE = Path(__file__).parents[1] / "golden" / "codex-model"
INSTRUCTIONS, SOURCE = f"{MODEL}.pragmatic.instructions.md", f"{MODEL}.pragmatic.source.json"
SCRIPTED = Path(__file__).parents[1] / "harnesses" / "codex" / "scripted.py"
SCENARIOS = {
    "codex-telegram-direct": ("telegram-direct", "Telegram, alone with the owner"),
    "codex-discord-group": ("discord-group", "Discord, a channel of a server, the assistant mentioned"),
    "codex-heartbeat": ("The boat moved.", "a heartbeat in the owner's conversation, HEARTBEAT.md not empty"),
}


class CodexTurnSnapshot(Struct, frozen=True):
    """What one turn was begun with."""

    about: str
    thread: dict[str, Any]
    turn: dict[str, Any]
    agents: str
    """AGENTS.md, which Codex finds by itself."""


def settings(telegram: TelegramServer, discord: DiscordServer, program: Path) -> dict[str, Any]:
    model = {"id": MODEL, "contextWindow": 400_000}
    access = {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "mock-key-123456", "api": "openai-responses"}
    provider = {**access, "models": [model], "agentRuntime": {"id": "codex"}}
    quiet = {"streaming": {"mode": "off"}}
    heartbeat = {"every": "24h", "target": "none"}
    defaults = {"model": f"openai/{MODEL}", "userTimezone": "Europe/Berlin", "heartbeat": heartbeat}
    guilds = {"guilds": {"*": {}}, "groupPolicy": "open"}
    return {
        "env": {"vars": {"OPENCLAW_CODEX_APP_SERVER_BIN": str(program)}},
        "models": {"providers": {"openai": provider}},
        "agents": {"defaults": defaults},
        "tts": {"enabled": False},  # otherwise it depends on the programs of this machine
        "commands": {"ownerAllowFrom": ["telegram:7", f"discord:{discord_server.ADA}"], "ownerDisplaySecret": "s3cret"},
        "channels": {
            "telegram": {"botToken": TOKEN, "apiRoot": telegram.url, **quiet},
            "discord": {"token": discord_server.TOKEN, "apiRoot": discord.url, **guilds, **quiet},
        },
    }


def record_codex(root: Path) -> dict[str, CodexTurnSnapshot]:
    """Every scenario, through one gateway."""
    home, place = TemporaryHome(root), root / "codex"
    place.mkdir()
    program = root / "codex-scripted"
    words = (sys.executable, str(SCRIPTED), str(place))
    program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    program.chmod(0o755)
    with TelegramServer() as telegram, DiscordServer() as discord:
        home.configure(settings(telegram, discord, program))
        with GatewayProcess(home) as gateway:
            asyncio.run(_converse(home, gateway, telegram, discord))
            agents = (home.workspace / "AGENTS.md").read_text()
    frames = [_clean(json.loads(line), root) for line in (place / "frames.jsonl").read_text().splitlines()]
    return {name: _turn(frames, marker, about, agents) for name, (marker, about) in SCENARIOS.items()}


async def _converse(
    home: TemporaryHome, gateway: GatewayProcess, telegram: TelegramServer, discord: DiscordServer
) -> None:
    telegram.says("telegram-direct")
    await asyncio.to_thread(telegram.hears, 1, DEADLINE)
    await asyncio.to_thread(discord.until, lambda: discord.identified, DEADLINE)
    discord.says("<@900> discord-group", channel=discord_server.CHANNEL, mentions=[discord_server.BOT])
    await asyncio.to_thread(discord.hears, 1, DEADLINE)
    (home.workspace / "HEARTBEAT.md").write_text("- Look after the boat.\n")
    heard = home.root / "codex" / "frames.jsonl"
    async with gateway.client() as client:
        await client.call("wake", {"mode": "now", "text": "The boat moved."})
        async with asyncio.timeout(DEADLINE):
            while "The boat moved." not in heard.read_text():
                await asyncio.sleep(0.02)


def _clean(value: Any, root: Path) -> Any:
    """Without what differs from machine to machine and from day to day."""
    if isinstance(value, dict):
        return {key: _clean(each, root) for key, each in value.items()}
    if isinstance(value, list):
        return [_clean(each, root) for each in value]
    if not isinstance(value, str):
        return value
    text = re.sub(r"\[\d{4}-\d\d-\d\d [\d:]{8} UTC\]", "[2027-01-31 09:30:00 UTC]", clean(value, root))
    return re.sub(r"(?m)^Current time: .*$", "Current time: Sunday 2027-01-31 10:30:00 UTC+01:00 (Europe/Berlin)", text)


def _turn(frames: Sequence[Mapping[str, Any]], marker: str, about: str, agents: str) -> CodexTurnSnapshot:
    """The turn whose input holds `marker`, with the thread it is in."""
    turn = next(
        frame["params"]
        for frame in frames
        if frame.get("method") == "turn/start" and marker in json.dumps(frame["params"]["input"], ensure_ascii=False)
    )
    begun = {frame["id"]: frame["params"] for frame in frames if frame.get("method") == "thread/start"}
    ids = {
        frame["result"]["thread"]["id"]: frame["id"]
        for frame in frames
        if isinstance(frame.get("result"), dict) and "thread" in frame["result"] and frame["id"] in begun
    }
    return CodexTurnSnapshot(about=about, thread=begun[ids[turn["threadId"]]], turn=turn, agents=agents)


# Files.


def snapshot_files(found: Mapping[str, CodexTurnSnapshot]) -> dict[str, str]:
    """The snapshots by file name: a page for each turn, and the catalogue of its tools beside it."""
    files = {}
    for name, turn in found.items():
        files[f"{name}.md"] = _page(name, turn)
        (space,) = turn.thread["dynamicTools"]
        files[f"{name}.tools.json"] = json.dumps(space, indent=1, ensure_ascii=False) + "\n"
    return files


def _page(name: str, turn: CodexTurnSnapshot) -> str:
    thread = {key: value for key, value in turn.thread.items() if key not in ("developerInstructions", "dynamicTools")}
    collaboration = turn.turn["collaborationMode"]["settings"]
    told = collaboration["developer_instructions"]
    context = turn.turn.get("additionalContext", {}).get("openclaw_turn", {}).get("value", "")
    asked = "\n".join(part["text"] for part in turn.turn["input"])
    model = (FIXTURE / INSTRUCTIONS).read_text()
    layers = {
        f"instructions of {MODEL}": ("developer", f"codex-model/{INSTRUCTIONS}", model),
        "developerInstructions": ("developer", "thread/start", turn.thread["developerInstructions"]),
        "collaborationMode": ("developer", "turn/start, read when it changes", told),
        "AGENTS.md": (
            "user",
            f"read by Codex, at most {turn.thread['config']['project_doc_max_bytes']} bytes",
            turn.agents,
        ),
        "additionalContext": ("developer", "turn/start, read when it changes", context),
        "input": ("user", "turn/start", asked),
    }
    begun = {
        **{key: value for key, value in turn.turn.items() if key not in ("input", "additionalContext", "threadId")},
        "collaborationMode": {"mode": "default", "settings": {**collaboration, "developer_instructions": "below"}},
    }
    tools = sorted(tool["name"] for tool in turn.thread["dynamicTools"][0]["tools"])
    rows = [
        f"| {layer} | {role} | {carrier} | {len(text)} | {len(text) // 4} |"
        for layer, (role, carrier, text) in layers.items()
    ]
    parts = [
        f"# {name}",
        f"{turn.about[0].upper()}{turn.about[1:]}. What OpenClaw hands to `codex app-server`, and the layers its model "
        "reads, in their order. What Codex adds itself, such as its environment, is not in it; its text about "
        "permissions is switched off.",
        "## thread/start",
        f"```json\n{json.dumps(thread, indent=1, ensure_ascii=False)}\n```",
        "## turn/start",
        f"```json\n{json.dumps(begun, indent=1, ensure_ascii=False)}\n```",
        "## Layers",
        "| layer | role | carrier | characters | tokens, about |\n|---|---|---|---|---|\n" + "\n".join(rows),
        f"Tools, in the namespace `openclaw` ([schemas]({name}.tools.json)): {', '.join(tools)}.",
    ]
    for layer, (_, carrier, text) in layers.items():
        shown = (
            f"In [{carrier}](../{carrier})." if carrier.startswith("codex-model/") else f"````\n{text.strip()}\n````"
        )
        parts += [f"## {layer}", shown]
    return "\n\n".join(parts) + "\n"


# The instructions of the model.


class NoCatalog(Exception):
    """No catalogue of models is there."""


def find_catalog(environ: Mapping[str, str], home: Path) -> Path:
    """Codex's own cache, or a checkout of its source; raises `NoCatalog`."""
    places = [
        *([Path(environ["CODEX_HOME"]) / "models_cache.json"] if environ.get("CODEX_HOME") else []),
        home / ".codex" / "models_cache.json",
        home / "code" / "codex" / "codex-rs" / "models-manager" / "models.json",
    ]
    for place in places:
        if place.is_file():
            return place
    raise NoCatalog(f"no catalogue of models: looked for {', '.join(map(str, places))}")


def model_fixture(catalog: Path) -> dict[str, str]:
    """The instructions of the model as files, out of a catalogue."""
    models = json.loads(catalog.read_text(encoding="utf-8"))["models"]
    found = next((model for model in models if model.get("slug") == MODEL), None)
    if found is None:
        raise NoCatalog(f"{catalog} has no {MODEL}")
    messages = found.get("model_messages") or {}
    text, field = messages.get("instructions_template"), "model_messages.instructions_template"
    if not text:
        text, field = found.get("base_instructions") or "", "base_instructions"
    personality = (messages.get("instructions_variables") or {}).get("personality_pragmatic") or ""
    text = text.replace("{{ personality }}", personality)
    source = {
        "model": MODEL,
        "personality": "pragmatic",
        # The place on this machine says nothing to others.
        "source": {"catalogPath": catalog.name, "catalogKind": _kind(catalog), "field": field},
        "license": "Apache-2.0, github.com/openai/codex",
    }
    return {INSTRUCTIONS: text.rstrip() + "\n", SOURCE: json.dumps(source, indent=1) + "\n"}


def _kind(catalog: Path) -> str:
    return "cache" if catalog.name == "models_cache.json" else "checkout"
