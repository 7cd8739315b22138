"""`/trust`: the owner clears the labels of a conversation; what is read later is labelled again."""

from pathlib import Path

import pytest
from msgspec import structs

from openclaw.core.messages import Assistant, Message, Text, ToolCall, ToolResult, User
from openclaw.core.text import Origin, make_origin
from openclaw.security.external import START
from openclaw.security.labels import message_origins
from openclaw.sessions.transcript import (
    AnyEntry,
    Compaction,
    Entry,
    MessageEntry,
    ResetEntry,
    build_context,
    path_origins,
    trust_entry,
)
from openclaw.testing import ScriptedModel, TemporaryHome, calls, says
from tests.runs.commands.house import chat_window

PAGE = (make_origin("external", "web_fetch https://page.example/"),)
MAIL = (make_origin("external", "webhook mail"),)


def transcript(*parts: Message | Entry) -> list[AnyEntry]:
    """A chain of entries: messages, and entries as they are."""
    entries: list[AnyEntry] = []
    for number, part in enumerate(parts):
        entry = MessageEntry(message=part) if isinstance(part, User | Assistant | ToolResult) else part
        entries.append(structs.replace(entry, id=f"e{number}", parent_id=f"e{number - 1}" if number else None))
    return entries


def labels(entries: list[AnyEntry]) -> set[Origin]:
    seen = {each for message in build_context(entries).messages for each in message_origins(message)}
    return seen | set(path_origins(entries))


READ = User(content="what came by mail", origins=MAIL)
FETCHED = (
    Assistant(content=(ToolCall(id="c", name="web_fetch", arguments={}),)),
    ToolResult(tool_call_id="c", tool_name="web_fetch", content=(Text(f"{START} a"),), origins=PAGE),
)


def test_labels_from_before_do_not_count_and_those_from_after_do() -> None:
    trusted = trust_entry(PAGE, "chat.send")
    assert labels(transcript(*FETCHED)) == set(PAGE)
    assert labels(transcript(*FETCHED, trusted)) == set()
    assert labels(transcript(*FETCHED, trusted, READ)) == set(MAIL)
    assert labels(transcript(READ, trusted, *FETCHED, trusted)) == set()


def test_it_holds_behind_a_summary_and_a_reset() -> None:
    trusted = trust_entry(PAGE, "chat.send")
    summary = Compaction(summary="s", first_kept_entry_id="e3")
    assert labels(transcript(*FETCHED, trusted, READ, summary)) == set(MAIL)
    kept_from_before = Compaction(summary="s", first_kept_entry_id="e0")
    assert labels(transcript(*FETCHED, trusted, kept_from_before)) == set()
    reset = ResetEntry(first_kept_entry_id="e0")
    assert labels(transcript(*FETCHED, trusted, READ, reset)) == set(MAIL)


@pytest.mark.anyio
async def test_the_owner_clears_labels_with_a_record(openclaw_home: TemporaryHome, tmp_path: Path) -> None:
    (tmp_path / "page.txt").write_text("Tides rise twice a day.")
    read, run = calls("read", path=str(tmp_path / "page.txt")), calls("exec", command="install /dev/null wanted")
    model = ScriptedModel(read, says("read"), run, says("done"), read, says("read"))
    async with chat_window(openclaw_home, model, tools={"exec": {"security": "full", "ask": "off"}}) as chat:
        assert "carries a label" in await chat.asks("/trust")
        await chat.asks("read it")
        said = await chat.asks("/trust")
        assert f"external: file {tmp_path}/page.txt" in said
        await chat.asks("do it")
        assert (openclaw_home.workspace / "wanted").exists()
        assert await chat.client.call("exec.approval.list", {}) == []
        assert "Nothing" in await chat.asks("/trust")
        await chat.asks("read it again")
        assert "page.txt" in await chat.asks("/trust")
        audit = await chat.client.call("audit.list", {})
    recorded = [each for each in audit["entries"] if each["hook"] == "trust"]
    assert len(recorded) == 2 and recorded[0]["sessionKey"] == "agent:main:main"
    (path,) = (openclaw_home.state / "agents" / "main" / "sessions").glob("*.jsonl")
    assert path.read_text().count('"openclaw.trust"') == 2
