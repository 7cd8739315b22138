"""A run on record: rebuilt to the byte, replayed, exported, forgotten when it is old."""

import hashlib
import itertools
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from openclaw.budget.settings import RecordSettings
from openclaw.core.errors import NotFound, RateLimited
from openclaw.core.harness import Steering
from openclaw.core.messages import User
from openclaw.core.provider import System
from openclaw.core.settings import Fixed
from openclaw.gateway.app import App
from openclaw.models.providers import encode_request
from openclaw.models.recording import PAGE, CallRecorder, is_sent
from openclaw.runs.replay import compare_models, export, replay
from openclaw.security.redaction import Redactor
from openclaw.testing import FakeClock, RecordedRun, ScriptedModel, TemporaryHome, ask, calls, fails, says, thinks

pytestmark = pytest.mark.anyio

KEY = "sk-proj-abcdefghijklmnopqrstuvwx"


async def runs_of(app: App) -> list[str]:
    rows = await app.db.read("SELECT run_id FROM runs ORDER BY started_at, run_id")
    return [row["run_id"] for row in rows]


async def test_the_request_rebuilt_from_the_record_is_the_one_that_was_sent(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    model = ScriptedModel([thinks("hm"), calls("ls", path=".")], [calls("ls", path=".."), calls("ls")], says("ok"))
    async with openclaw_home.assistant(model) as app:
        await ask(app, "look around")
        (run_id,) = await runs_of(app)
        recorded = await app.budget.recorder.calls(run_id)
    assert len(recorded) == 3
    for call, sent in zip(recorded, model.requests, strict=True):
        assert encode_request(call.request) == encode_request(sent)
        assert is_sent(encode_request(sent), call.wire)
        assert call.request.system == sent.system and call.request.tools == sent.tools


async def test_a_replay_follows_the_record_to_its_end(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model("a/m", "b/m")
    first = ScriptedModel(calls("ls", path="."), fails(RateLimited("later", retry_after=600)))
    second = ScriptedModel(calls("read", path="missing.txt"), says("Done."))
    async with openclaw_home.assistant({"a": first, "b": second}) as app:
        steering = Steering()
        steering.add(User(content="and be quick", idempotency_key="x:user"))
        await ask(app, "look", steering=steering)
        (run_id,) = await runs_of(app)
        recorded = await app.budget.recorder.calls(run_id)
        found = await replay(recorded, encode_request, FakeClock())
    assert [call.failure.reason if call.failure else "" for call in recorded] == ["", "rate_limit", "", ""]
    assert found.identical, str(found)
    assert (found.calls, found.followed, found.answer) == (4, 4, "Done.")


async def test_the_first_difference_is_found(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    async with openclaw_home.assistant(ScriptedModel(calls("ls", path="."), says("ok"))) as app:
        await ask(app, "look")
        (run_id,) = await runs_of(app)
        one, two = await app.budget.recorder.calls(run_id)
    other = structs.replace(two.request, messages=(*two.request.messages[:-1], User(content="not what was said")))
    found = await replay([one, structs.replace(two, request=other, wire="")], encode_request, FakeClock())
    assert found.difference is not None and found.difference.call == 2 and "from byte" in found.difference.what
    changed = structs.replace(one, request=structs.replace(one.request, system=System("another prompt")))
    found = await replay([changed], encode_request, FakeClock())
    assert found.difference is not None and "not the one that was sent" in found.difference.what
    unasked = await replay([structs.replace(one, events=two.events), two], encode_request, FakeClock())
    assert unasked.difference is not None and unasked.difference.call == 2


async def test_a_record_with_the_digest_of_what_was_sent_is_compared_too(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    model = ScriptedModel(says("ok"))
    async with openclaw_home.assistant(model) as app:
        await ask(app, "look")
        (run_id,) = await runs_of(app)
        (one,) = await app.budget.recorder.calls(run_id)
    older = structs.replace(one, wire=hashlib.sha256(encode_request(model.requests[0])).hexdigest())
    assert (await replay([older], encode_request, FakeClock())).identical
    changed = structs.replace(older, request=structs.replace(one.request, system=System("another prompt")))
    found = await replay([changed], encode_request, FakeClock())
    assert found.difference is not None and "not the one that was sent" in found.difference.what


async def test_what_repeats_is_stored_once(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    async with openclaw_home.assistant(ScriptedModel(*(says(f"answer {n}") for n in range(12)))) as app:
        sizes = []
        for number in range(12):
            await ask(app, f"question {number}")
            blobs, calls = [
                (await app.db.read(f"SELECT SUM(bytes) AS bytes FROM {table}"))[0]["bytes"]
                for table in ("record_blobs", "call_records")
            ]
            sizes.append(blobs + calls)
    growth = [after - before for before, after in itertools.pairwise(sizes)]
    assert max(growth[2:]) < sizes[0] / 4, "a turn costs what is new in it, not the whole prompt again"


async def test_old_runs_and_too_many_are_forgotten(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model(record={"keepDays": 2})
    clock = FakeClock()
    async with openclaw_home.assistant(ScriptedModel(*(says("x") for _ in range(3))), clock=clock) as app:
        await ask(app, "old")
        await clock.advance(3 * 86_400)
        await ask(app, "new", session="other")
        old, new = await runs_of(app)
        recorder = app.budget.recorder
        with pytest.raises(NotFound, match="no run"):
            await recorder.find(old)
        assert len(await recorder.calls(new)) == 1
        assert (await replay(await recorder.calls(new), encode_request, clock)).identical

        await clock.advance(2 * 3600)
        tiny = CallRecorder(app.db, clock, Fixed(RecordSettings(max_megabytes=1)), encode_request)
        big = "x" * (1 << 20)
        await app.db.write("UPDATE record_blobs SET bytes = :bytes", {"bytes": len(big)})
        assert await tiny.forget_old() == 1
        assert await app.db.read("SELECT 1 FROM record_blobs") == []


async def test_a_conversation_that_goes_on_is_kept_with_its_oldest_messages(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model(record={"keepDays": 1})
    clock = FakeClock()
    turns = PAGE // 2 + 2
    async with openclaw_home.assistant(ScriptedModel(*(says("x") for _ in range(turns + 2))), clock=clock) as app:
        for number in range(turns):
            await ask(app, f"question {number}")
        for _ in range(2):
            await clock.advance(20 * 3600)
            await ask(app, "and now?")
        last = await app.budget.recorder.calls((await runs_of(app))[-1])
        assert len(last[0].request.messages) == 2 * turns + 3
        assert (await replay(last, encode_request, clock)).identical


async def test_nothing_is_recorded_when_that_is_switched_off(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model(record={"enabled": False})
    async with openclaw_home.assistant(ScriptedModel(says("x"))) as app:
        await ask(app, "hello")
        assert await app.db.read("SELECT 1 FROM call_records") == []


async def test_an_exported_run_is_a_test_case_without_secrets(openclaw_home: TemporaryHome, tmp_path: Path) -> None:
    openclaw_home.use_model()
    (openclaw_home.workspace / "keys.txt").write_text(f"the key is {KEY}\n")
    model = ScriptedModel(calls("read", path="keys.txt"), says(f"It says {KEY}, api_key=hunter2hunter2."))
    async with openclaw_home.assistant(model) as app:
        await ask(app, f"read keys.txt; mine is {KEY}")
        (run_id,) = await runs_of(app)
        recorded = await app.budget.recorder.calls(run_id)
    file = tmp_path / "run.json"
    file.write_bytes(export(run_id, "agent:main:main", recorded, Redactor()))
    text = file.read_text()
    assert KEY not in text and "hunter2" not in text and "__OPENCLAW_REDACTED__" in text
    assert msgspec.json.decode(text)["kind"] == "openclaw-run"

    case = RecordedRun.load(file)
    found = await case.replay()
    assert found.identical, str(found)
    assert case.question.startswith("read keys.txt") and case.answer.startswith("It says __OPENCLAW")
    once_more = case.model()
    async with openclaw_home.assistant(once_more) as app:
        heard = await ask(app, case.question, session="again")
    assert heard.text == case.answer and len(once_more.requests) == 2


async def test_another_model_is_asked_the_same(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model("a/m", "b/m")
    first = ScriptedModel(calls("ls", path="."), says("Three files."))
    second = ScriptedModel(calls("ls", path="."), says("I see four files."))
    async with openclaw_home.assistant({"a": first, "b": second}) as app:
        await ask(app, "count")
        (run_id,) = await runs_of(app)
        recorded = await app.budget.recorder.calls(run_id)
        async with app.routes.lend(app.key(None, None), "b/m") as attempt:
            compared = [each async for each in compare_models(recorded, attempt, app.clock)]
        rows = await app.db.read("SELECT model_calls.provider AS provider FROM model_calls ORDER BY at, attempt")
    assert [each.same for each in compared] == [True, False]
    assert compared[1].now.text == "I see four files."
    assert [request.messages for request in second.requests] == [request.messages for request in first.requests]
    assert sorted(row["provider"] for row in rows) == ["a", "a", "b", "b"]
