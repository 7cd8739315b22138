"""A home that an earlier version wrote, and left in the middle of work, is opened: everything is still there.

scripts/fixture_home wrote the homes; nobody writes them anew when the program changes, because people's homes stay too.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from openclaw.testing import says
from openclaw.testing.server import MockModelServer
from tests.e2e.earlier_homes import HOMES, Gateway, Wire, device_id, dial, phone_key, unpack, until

ARCHIVES = sorted(HOMES.glob("*/home.tar.xz"))
ANSWER = "Here I am again."


class Opened(NamedTuple):
    gateway: Gateway
    wire: Wire
    model: MockModelServer
    notes_index: dict[str, Any]
    """What `memory status` said before the gateway could have made the index anew."""

    @property
    def workspace(self) -> Path:
        return self.gateway.home.workspace

    def session(self, part: str) -> dict[str, Any]:
        """The one conversation whose key holds `part`."""
        (found,) = [row for row in self.wire.call("sessions.list")["sessions"] if part in row["key"]]
        return dict(found)


@pytest.fixture(scope="module", params=ARCHIVES, ids=lambda archive: archive.parent.name)
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """A copy of the home with today's gateway on it."""
    home = unpack(request.param, tmp_path_factory.mktemp("earlier"))
    with MockModelServer([says(ANSWER)]) as model:
        index = Gateway(home, model.url).type("memory", "status", "--json").document
        with Gateway(home, model.url) as gateway, dial(gateway.port) as wire:
            yield Opened(gateway, wire, model, index)


def texts(messages: list[dict[str, Any]], role: str) -> list[str]:
    """What was said by `role`, without the calls."""
    said = [row["content"] for row in messages if row["role"] == role]
    return [each if isinstance(each, str) else "".join(part.get("text", "") for part in each) for each in said]


def called(messages: list[dict[str, Any]]) -> list[str]:
    """The tools that were called, in order."""
    parts = [part for row in messages if row["role"] == "assistant" for part in row["content"]]
    return [part["name"] for part in parts if part["type"] == "toolCall"]


def test_there_is_a_home_to_open() -> None:
    assert ARCHIVES


def test_every_conversation_is_listed(opened: Opened) -> None:
    keys = {row["key"] for row in opened.wire.call("sessions.list")["sessions"]}
    named = {f"agent:main:explicit:{name}" for name in ("harbour", "reading", "tides", "guarded", "fees")}
    assert named | {"agent:main:main", "agent:main:mailbox:direct:eve"} <= keys
    assert opened.session(":cron:")["key"] in keys
    assert opened.session("explicit:harbour")["label"] == "At the harbour"


def test_a_conversation_shows_what_was_said_and_which_tools_were_called(opened: Opened) -> None:
    messages = opened.wire.messages("main")
    assert texts(messages, "user")[0] == "Put a compass on the packing list"
    assert called(messages) == ["read", "edit"]
    assert texts(messages, "toolResult")[0] == "- rope"
    assert "The compass is on the list." in texts(messages, "assistant")


def test_a_sub_agent_is_found_with_its_work_and_its_result(opened: Opened) -> None:
    child = opened.session(":subagent:")["key"]
    starter = opened.wire.messages("explicit:harbour")
    assert called(starter) == ["sessions_spawn", "sessions_yield"]
    assert child in texts(starter, "toolResult")[0]
    assert texts(starter, "assistant")[-1] == "The harbour has three piers."
    work = opened.wire.messages(child)
    assert called(work) == ["read"] and "three piers: north" in texts(work, "toolResult")[0]
    assert texts(work, "assistant")[-1] == "There are three piers."


def test_jobs_are_scheduled_as_they_were(opened: Opened) -> None:
    jobs = {job["name"]: job for job in opened.wire.call("cron.list", {"includeDisabled": True})["jobs"]}
    assert {name: job["enabled"] for name, job in jobs.items()} == {"yearly": True, "era": True, "moorings": False}
    yearly = jobs["yearly"]
    assert (yearly["schedule"]["expr"], yearly["schedule"]["tz"]) == ("0 7 1 1 *", "UTC")
    assert (yearly["payload"]["message"], yearly["misfire"]) == ("Summarise the year", "skip")
    assert jobs["era"]["payload"] == {"kind": "systemEvent", "text": "A new era"}
    assert jobs["moorings"]["schedule"]["everyMs"] == 7_200_000


def test_what_became_of_a_job_is_on_record(opened: Opened) -> None:
    (run,) = opened.wire.call("cron.runs", {"scope": "all"})["entries"]
    assert (run["jobName"], run["status"], run["summary"]) == ("yearly", "ok", "A quiet year.")
    assert texts(opened.wire.messages(opened.session(":cron:")["key"]), "assistant") == ["A quiet year."]


def test_what_was_allowed_for_good_still_is(opened: Opened) -> None:
    (grant,) = opened.wire.call("exec.approvals.get")["file"]["agents"]["main"]["allowlist"]
    assert (grant["source"], grant["lastUsedCommand"]) == ("allow-always", "sh tides.sh")


def test_a_paired_phone_comes_in_without_being_asked_again(opened: Opened) -> None:
    paired = opened.wire.call("device.pair.list")["paired"]
    assert [(each["deviceId"], each["displayName"]) for each in paired] == [(device_id(phone_key()), "A phone")]
    with dial(opened.gateway.port, phone=phone_key()) as phone:
        assert phone.call("sessions.list")["count"] > 0


def test_a_note_is_found(opened: Opened) -> None:
    found = opened.wire.call("memory.search", {"query": "sailmaker spinnaker"})["results"]
    assert found[0]["path"] == "memory/2026-11-02.md" and "Gull Lane 7" in found[0]["snippet"]


def test_the_index_of_the_notes_is_taken_over(opened: Opened) -> None:
    found = opened.notes_index
    assert (found["files"], found["waiting"], found["outdated"], found["problems"]) == (3, 0, False, [])


@pytest.mark.parametrize(
    ("run", "session", "text"),
    [
        ("fees", "explicit:fees", "What are the harbour fees?"),
        ("anchorage", "main", "Where is the best anchorage?"),
        ("supper", "main", "And where do we have supper?"),
    ],
)
def test_what_waited_for_an_answer_is_answered(opened: Opened, run: str, session: str, text: str) -> None:
    assert opened.wire.answered(run)["terminalReply"]["text"] == ANSWER
    messages = opened.wire.messages(session)
    users = [place for place, row in enumerate(messages) if row["role"] == "user"]
    (asked,) = [place for place in users if text in str(messages[place]["content"])]
    end = next((place for place in users if place > asked), len(messages))
    assert texts(messages[asked:end], "assistant")[-1] == ANSWER


def test_a_call_that_waited_for_approval_was_not_made(opened: Opened) -> None:
    opened.wire.answered("fees")
    messages = opened.wire.messages("explicit:fees")
    assert called(messages) == ["exec"]
    (result,) = [row for row in messages if row["role"] == "toolResult"]
    assert result["isError"] and "No result" in str(result["content"])


def test_an_event_that_nobody_had_been_told_is_told(opened: Opened) -> None:
    opened.wire.answered("supper")
    assert any("The barometer falls" in json.dumps(request) for request in opened.model.requests)


def test_accepted_plugins_run(opened: Opened) -> None:
    listed = opened.wire.call("plugins.list")
    assert {each["id"]: each["state"] for each in listed["plugins"]} == {"careful": "enabled", "mailbox": "enabled"}
    assert listed["diagnostics"] == []
    assert opened.wire.call("health")["plugins"] == {"loaded": ["careful", "mailbox"], "errors": [], "unavailable": []}


def test_an_accepted_skill_is_ready(opened: Opened) -> None:
    (skill,) = [each for each in opened.wire.call("skills.status")["skills"] if each["name"] == "tide-tables"]
    assert (skill["trust"], skill["eligible"], skill["modelVisible"]) == ("trusted", True, True)


def test_someone_who_was_let_in_is_still_heard(opened: Opened) -> None:
    post = opened.gateway.home.root / "post"
    letter = post / "eve.part"
    letter.write_text("Good evening")
    letter.rename(post / "inbox" / "eve--again.txt")
    (answer,) = until(lambda: list((post / "outbox").glob("eve--*.txt")))
    assert answer.read_text().strip() == ANSWER
    assert texts(opened.wire.messages("agent:main:mailbox:direct:eve"), "assistant") == ["Good day, Eve.", ANSWER]


def test_what_was_spent_is_on_the_books(opened: Opened) -> None:
    sessions = opened.wire.call("sessions.usage")["sessions"]
    (spent,) = [each["usage"] for each in sessions if each["key"] == "agent:main:explicit:reading"]
    assert spent["totalTokens"] == 330 and spent["totalCost"] == pytest.approx(0.00135)
    assert opened.wire.call("usage.cost", {"days": 7})["totals"]["totalTokens"] >= 16 * 110


def test_what_was_asked_and_answered_is_on_record(opened: Opened) -> None:
    shown = opened.gateway.type("runs", "show", "packing", "--requests")
    assert shown.code == 0, shown.err
    assert "Put a compass on the packing list" in shown.out and "The compass is on the list." in shown.out
    assert "oldText" in shown.out  # the request itself, not only what was said


def test_the_prompt_of_a_run_is_on_record(opened: Opened) -> None:
    report = opened.wire.call("prompt.report", {"runId": "packing"})["report"]
    files = {each["name"]: each["rawChars"] for each in report["injectedWorkspaceFiles"]}
    assert files["SOUL.md"] == len("Be brief, and kind.") and files["MEMORY.md"] > 0


def test_a_change_of_a_file_can_be_undone(opened: Opened) -> None:
    file = opened.workspace / "packing.md"
    assert file.read_text() == "- rope\n- compass\n"
    undone = opened.gateway.type("undo", "packing", "--yes", "--json").document
    assert undone["undone"] == [str(file)] and file.read_text() == "- rope\n"


def test_a_file_with_text_from_elsewhere_keeps_its_label(opened: Opened) -> None:
    listed = opened.gateway.type("labels", "list").out
    leaflet = opened.workspace / "downloads" / "leaflet.txt"
    assert f"{opened.workspace / 'summary.md'}: external (file {leaflet})" in listed


def test_what_a_plugin_refused_is_on_record_and_the_record_is_whole(opened: Opened) -> None:
    entries = opened.gateway.type("audit", "list", "--plugin", "careful", "--json").document["entries"]
    assert [(each["seq"], each["runId"], each["field"]) for each in entries] == [(1, "guarded", "block")]
    assert opened.gateway.type("audit", "verify").code == 0


def test_earlier_versions_of_a_workspace_file_can_be_read(opened: Opened) -> None:
    where = {"agentId": "main", "name": "SOUL.md"}
    versions = opened.wire.call("agents.files.history", where)["versions"]
    read = [opened.wire.call("agents.files.version", {**where, "version": each["id"]}) for each in versions]
    assert [each["content"] for each in read[:2]] == ["Be brief, and kind.\n", "Be brief.\n"]


def test_nothing_needs_repair(opened: Opened) -> None:
    assert opened.wire.call("doctor.check")["summary"]["critical"] == 0
