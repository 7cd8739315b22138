"""`openclaw plugins` as a person types it: nothing runs unasked, and the operator's rule comes first."""

import asyncio
import json
import subprocess
import sys
import tarfile
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from openclaw.core.errors import InvalidRequest
from openclaw.extensions.install import install
from openclaw.plugins.find import AcceptedPlugins
from openclaw.plugins.install import PluginReview, StagedPlugin, put
from openclaw.testing import TemporaryHome, says
from openclaw.testing_server import MockModelServer
from tests.commandline import openclaw
from tests.e2e.gateway_process import GatewayProcess
from tests.plugins.support import DEADLINE, tool_plugin, write

TOP = Path(__file__).parents[2]
DICE = """
from openclaw.plugin import *

def register(api):
    api.tool(FunctionTool('dice', 'Throws.', {}, lambda args, context: '4'))
"""
DECLARED: dict[str, Any] = {"contracts": {"tools": ["dice"]}, "version": "1.0", "description": "Throws dice."}


class Terminal:
    def __init__(self, home: TemporaryHome) -> None:
        self.home = home

    def runs(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return openclaw("plugins", *words, env=self.home.environ, cwd=self.home.root)

    def does(self, *words: str) -> str:
        done = self.runs(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def fails(self, *words: str) -> str:
        done = self.runs(*words)
        assert done.returncode != 0, done.stdout
        return done.stdout + done.stderr

    def plugin(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = next(
            each for each in json.loads(self.does("list", "--json"))["plugins"] if each["id"] == name
        )
        return found


@pytest.fixture
def terminal(openclaw_home: TemporaryHome) -> Terminal:
    return Terminal(openclaw_home)


def test_from_install_to_removal(terminal: Terminal, tmp_path: Path) -> None:
    source = write(tmp_path / "mine", "dice", DICE, **DECLARED)
    assert "No plugins." in terminal.does("list")
    assert "nobody agreed" in terminal.fails("install", str(source))
    assert "No plugins." in terminal.does("list")
    assert "installed dice" in terminal.does("install", str(source), "--yes")
    assert terminal.plugin("dice")["state"] == "on"
    shown = json.loads(terminal.does("info", "dice", "--json"))
    assert shown["declares"] == {"contracts.tools": ["dice"]} and shown["treeSha256"] == shown["acceptedSha256"]
    assert "process of its own" in terminal.does("info", "dice")
    assert "keeps to the contract" in terminal.does("doctor")

    assert "already installed" in terminal.fails("install", str(source), "--yes")
    (source / "plugin.py").write_text(DICE.replace("'4'", "'5'"))
    assert "updated dice" in terminal.does("update", "dice", "--yes")
    installed = terminal.home.state / "extensions" / "dice"
    assert "'5'" in (installed / "plugin.py").read_text()

    terminal.does("disable", "dice")
    assert terminal.plugin("dice")["state"] == "off"
    terminal.does("enable", "dice")
    (installed / "plugin.py").write_text("raise SystemExit('tampered')")
    held = terminal.plugin("dice")
    assert held["state"] == "held" and "changed since they were accepted" in held["why"]
    assert "not accepted" in terminal.fails("enable", "dice")
    assert "tampered" in terminal.fails("doctor", "dice")
    terminal.does("enable", "dice", "--yes")
    assert terminal.plugin("dice")["state"] == "on"

    assert "not removed" in terminal.fails("remove", "dice")
    terminal.does("remove", "dice", "--yes")
    assert not installed.exists() and "No plugins." in terminal.does("list")
    assert json.loads((terminal.home.state / "plugins-lock.json").read_text())["plugins"] == {}
    assert "dice" not in terminal.home.config_path.read_text()


def test_what_was_dropped_in_by_hand_waits_for_a_yes(terminal: Terminal) -> None:
    write(terminal.home.state / "extensions", "dice", DICE, **DECLARED)
    assert terminal.plugin("dice")["state"] == "off"
    terminal.does("enable", "dice", "--yes")
    assert terminal.plugin("dice")["state"] == "on"
    assert "Did you mean dice?" in terminal.fails("info", "dise")


@pytest.mark.parametrize("kind", ["tgz", "zip"])
def test_an_archive_is_installed_like_a_directory(terminal: Terminal, tmp_path: Path, kind: str) -> None:
    source = write(tmp_path / "mine", "dice", DICE, **DECLARED)
    archive = tmp_path / f"dice.{kind}"
    if kind == "tgz":
        with tarfile.open(archive, "w:gz") as packed:
            packed.add(source, "dice")
    else:
        with zipfile.ZipFile(archive, "w") as packed_zip:
            for path in source.iterdir():
                packed_zip.write(path, f"dice/{path.name}")
    assert "Throws dice." in terminal.runs("install", str(archive), "--dry-run").stderr
    assert "No plugins." in terminal.does("list")
    report = json.loads(terminal.does("install", str(archive), "--yes", "--json"))
    assert report["ok"] and report["id"] == "dice" and report["files"] == 2


def rule(tmp_path: Path, decision: str) -> dict[str, Any]:
    program = tmp_path / "rule"
    program.write_text(
        f"#!{sys.executable}\nimport json, sys\nasked = json.load(sys.stdin)\n"
        "line = json.dumps([asked['targetType'], asked['request']['mode']])\n"
        f"open({str(tmp_path / 'asked')!r}, 'a').write(line + '\\n')\n"
        f"print(json.dumps({{'protocolVersion': 1, 'decision': '{decision}', 'reason': 'house rules'}}))\n"
    )
    program.chmod(0o755)
    return {"security": {"installPolicy": {"enabled": True, "exec": {"command": str(program)}}}}


def test_the_operators_rule_is_asked_for_installs_and_updates(terminal: Terminal, tmp_path: Path) -> None:
    source = write(tmp_path / "mine", "dice", DICE, **DECLARED)
    terminal.home.configure(rule(tmp_path, "allow"))
    terminal.does("install", str(source), "--yes")
    terminal.home.configure(rule(tmp_path, "block"))
    said = terminal.fails("update", "dice", "--yes", "--accept-risk")
    assert "blocked by the install policy: house rules" in said
    asked = [json.loads(line) for line in (tmp_path / "asked").read_text().splitlines()]
    assert asked == [["plugin", "install"], ["plugin", "update"]]


def test_the_rule_comes_before_every_hook_and_person(tmp_path: Path) -> None:
    source = write(tmp_path / "mine", "dice", DICE, **DECLARED)
    order: list[str] = []

    def says_no(who: str, why: str = "") -> Any:
        def objects(staged: StagedPlugin) -> str:
            order.append(who)
            return why

        return objects

    def attempt(policy: str) -> None:
        install(
            StagedPlugin,
            source,
            tmp_path / "extensions",
            partial(put, ledger=AcceptedPlugins(tmp_path), now=0),
            inspect=lambda files, report: [],
            review=PluginReview(
                policy=says_no("rule", policy), hooks=(says_no("hook", "I object"),), person=says_no("person")
            ),
        )

    with pytest.raises(InvalidRequest, match="never"):
        attempt("never")
    assert order == ["rule"]
    with pytest.raises(InvalidRequest, match="I object"):
        attempt("")
    assert order == ["rule", "rule", "hook"]
    assert list((tmp_path / "extensions").glob("*dice*")) == [] and not AcceptedPlugins(tmp_path).read()


def test_what_cannot_be_a_plugin_is_not_installed(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "has no openclaw.plugin.json" in terminal.fails("install", str(tmp_path / "empty"), "--yes")
    bad = write(tmp_path, "bad", "", id="../bad")
    assert "cannot be installed" in terminal.fails("install", str(bad), "--yes")


def test_a_new_plugin_passes_its_own_tests(terminal: Terminal, tmp_path: Path) -> None:
    made = Path(terminal.does("new", "say-hello", "--in", str(tmp_path)).strip())
    assert made == tmp_path / "say-hello"
    tests = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", str(made)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=300,
    )
    assert tests.returncode == 0, tests.stdout + tests.stderr
    assert "3 passed" in tests.stdout
    assert "already there" in terminal.fails("new", "say-hello", "--in", str(tmp_path))
    assert "cannot be the id" in terminal.fails("new", "Say Hello")
    terminal.home.configure({"plugins": {"load": {"paths": [str(made)]}}})
    assert "say-hello: keeps to the contract" in terminal.does("doctor", "say-hello")


def test_the_examples_pass_their_tests() -> None:
    tests = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "examples"],
        capture_output=True,
        text=True,
        cwd=TOP,
        timeout=300,
    )
    assert tests.returncode == 0, tests.stdout + tests.stderr


def test_the_doctor_names_settings_for_plugins_that_are_not_there(terminal: Terminal) -> None:
    terminal.home.configure({"plugins": {"entries": {"gone": {"enabled": True}}}})
    assert "speaks of gone" in terminal.fails("doctor")


@pytest.mark.anyio
async def test_a_running_gateway_takes_changes_up(terminal: Terminal, tmp_path: Path) -> None:
    source = tool_plugin(tmp_path / "mine", "dice", "import os\nos._exit(3)")
    with MockModelServer([says("hi")]) as server:
        terminal.home.configure(server.settings())
        with GatewayProcess(terminal.home):
            await asyncio.to_thread(terminal.does, "install", str(source), "--yes")
            assert (await asyncio.to_thread(terminal.plugin, "dice"))["state"] == "running"
            await asyncio.to_thread(terminal.does, "disable", "dice")
            await _until(terminal, "off")
            await asyncio.to_thread(terminal.does, "enable", "dice")
            await _until(terminal, "running")
            assert "started again" in await asyncio.to_thread(terminal.does, "reload", "dice")
            await asyncio.to_thread(terminal.does, "remove", "dice", "--yes")
            assert "No plugins." in await asyncio.to_thread(terminal.does, "list")


async def _until(terminal: Terminal, state: str) -> None:
    async with asyncio.timeout(DEADLINE):
        while (await asyncio.to_thread(terminal.plugin, "dice"))["state"] != state:
            await asyncio.sleep(0.2)


def test_the_page_about_plugins_tells_the_truth(terminal: Terminal, tmp_path: Path) -> None:
    import re

    page = (TOP / "docs" / "plugins.md").read_text()
    manifest = re.search(r"```json\n(\{\n  \"id\": \"dice\".*?)```", page, re.DOTALL)
    code = re.search(r"```python\n(import random.*?)```", page, re.DOTALL)
    assert manifest is not None and code is not None
    dice = tmp_path / "dice"
    dice.mkdir(mode=0o755)
    (dice / "openclaw.plugin.json").write_text(manifest[1])
    (dice / "plugin.py").write_text(code[1])
    terminal.home.configure(
        {"plugins": {"load": {"paths": [str(tmp_path)]}, "entries": {"dice": {"config": {"sides": 2}}}}}
    )
    assert "dice: keeps to the contract" in terminal.does("doctor", "dice")


@pytest.mark.anyio
async def test_another_plugin_may_object_to_an_install(terminal: Terminal, tmp_path: Path) -> None:
    code = """
from openclaw.plugin import InstallVerdict

def register(api):
    api.on("before_install", judge)

def judge(event, context):
    return InstallVerdict(block=event.target_type == "plugin", block_reason=f"no {event.target_name} here")
"""
    write(tmp_path / "guards", "doorman", code, hooks=["before_install"])
    source = write(tmp_path / "mine", "dice", DICE, **DECLARED)
    with MockModelServer([says("hi")]) as server:
        load = {"load": {"paths": [str(tmp_path / "guards")]}}
        terminal.home.configure({**server.settings(), "plugins": load})
        with GatewayProcess(terminal.home) as gateway:
            async with gateway.client() as client:
                await client.call("plugins.list", {})
            said = await asyncio.to_thread(terminal.fails, "install", str(source), "--yes")
            assert "no dice here" in said
            assert not (terminal.home.state / "extensions" / "dice").exists()
