"""What is on record beside the changes of plugins: files that hooks changed, addresses that the settings changed."""

import json

import pytest

from openclaw.models.service import address_changes
from openclaw.testing import ScriptedModel, TemporaryHome, ask, says
from openclaw.testing.server import MockModelServer
from tests.e2e.test_command_line import run
from tests.plugins.hook_files.support import put, want
from tests.prompt.support import preview

pytestmark = pytest.mark.anyio

REPLACES = """
def handler(event):
    files = [each for each in event.context["bootstrapFiles"] if each["name"] != "TOOLS.md"]
    for each in files:
        if each["name"] == "SOUL.md":
            each["content"] = "You are a pirate."
    files.append({"name": "RULES.md", "path": "rules.md"})
    event.context["bootstrapFiles"] = files
"""


async def test_what_a_hook_does_to_the_files_of_a_prompt_is_on_record(openclaw_home: TemporaryHome) -> None:
    put(openclaw_home.state / "hooks", "pirate", "agent:bootstrap", code=REPLACES)
    put(openclaw_home.state / "hooks", "quiet", "agent:bootstrap", code="def handler(event):\n    pass\n")
    (openclaw_home.workspace / "rules.md").write_text("Never lend money.")
    (openclaw_home.workspace / "SOUL.md").write_text("You are kind.")
    (openclaw_home.workspace / "TOOLS.md").write_text("tool words")
    want(openclaw_home, enabled=True)
    async with openclaw_home.assistant(ScriptedModel(says("Arr."))) as app:
        await preview(app)
        assert app.audit.entries() == []  # a preview is no run
        await ask(app, "hi")
        entries = app.audit.entries()
    told = {entry.note: (entry.before_chars, entry.after_chars) for entry in entries}
    assert told == {"SOUL.md replaced": (13, 17), "TOOLS.md taken out": (10, 0), "rules.md put in": (0, 17)}
    assert {(entry.plugin, entry.hook) for entry in entries} == {("hook:pirate", "agent:bootstrap")}
    shown = run(openclaw_home, "prompt", "audit", "--diff").stdout
    assert "hook:pirate agent:bootstrap bootstrapFiles: 13 → 17 chars (SOUL.md replaced)" in shown
    assert "      + Never lend money.\n" in shown
    assert run(openclaw_home, "audit", "verify").stdout == "entries 1 to 3: the record is whole\n"
    # The prompt on record remembers the entries: a record that is gone is missed.
    for path in (openclaw_home.state / "audit").glob("*"):
        path.unlink()
    assert "a recorded prompt remembers" in run(openclaw_home, "audit", "verify").stdout


def test_no_credential_in_an_address_gets_on_record() -> None:
    (deed,) = address_changes(
        {"mock": "https://me:secret@old.example/v1?key=secret"}, {"mock": "https://new.example:8443/v1"}
    )
    assert deed.note == "https://old.example -> https://new.example:8443"
    (new,) = address_changes({}, {"mock": "https://new.example/v1"})
    assert new.note == "none -> https://new.example"


async def test_a_provider_that_is_asked_elsewhere_is_on_record_before_it_is_asked(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([says("one")]) as first, MockModelServer([says("two")]) as second:
        openclaw_home.configure(first.settings())
        assert run(openclaw_home, "agent", "--local", "-m", "hi").stdout.strip() == "one"
        assert run(openclaw_home, "audit", "list").stdout == "No plugin has changed anything.\n"
        openclaw_home.configure(second.settings())
        assert run(openclaw_home, "agent", "--local", "-m", "hi").stdout.strip() == "two"
    (entry,) = json.loads(run(openclaw_home, "audit", "list", "--json").stdout)["entries"]
    assert (entry["plugin"], entry["field"]) == ("config", "models.providers.mock.baseUrl")
    assert entry["note"] == f"{first.url.removesuffix('/v1')} -> {second.url.removesuffix('/v1')}"
    assert run(openclaw_home, "audit", "verify").stdout == "entries 1 to 1: the record is whole\n"
