"""What a run spends, refuses and says about it, with the whole assistant around it."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from openclaw.budget.ledger import CallEnd, MeterAccount, ReservedCall
from openclaw.budget.limits import Estimate
from openclaw.core.errors import AuthFailed, RateLimited, ServerFailed
from openclaw.core.events import ModelCalled, RunNotice
from openclaw.core.messages import Cost, Usage
from openclaw.core.provider import Endpoint
from openclaw.gateway.app import open_app
from openclaw.process.environment import Environment
from openclaw.runs.request import RunRequest
from openclaw.testing import (
    FakeClock,
    Heard,
    ScriptedApprover,
    ScriptedModel,
    TemporaryHome,
    ask,
    calls,
    fails,
    says,
    stalls,
)

pytestmark = pytest.mark.anyio

PRICE = {"input": 10.0, "output": 20.0, "cacheRead": 1.0, "cacheWrite": 12.0}
HOSTED = "https://models.example/v1"


def configure(
    home: TemporaryHome,
    *models: str,
    prices: dict[str, Any] | None = None,
    without_key: tuple[str, ...] = (),
    **sections: Any,
) -> None:
    """Hosted models with prices, so that budgets have something to count."""
    providers: dict[str, Any] = {}
    for provider, _, model in (ref.partition("/") for ref in models):
        cost = (prices or {}).get(f"{provider}/{model}", PRICE)
        entry: dict[str, Any] = {"api": "openai-completions", "baseUrl": HOSTED, "models": []}
        if provider not in without_key:
            entry["apiKey"] = f"key-of-{provider}"
        listed = {"id": model, "maxTokens": 1000, **({"cost": cost} if cost else {})}
        providers.setdefault(provider, entry)["models"].append(listed)
    choice = {"primary": models[0], "fallbacks": models[1:]}
    home.configure({"models": {"providers": providers}, "agents": {"defaults": {"model": choice}}, **sections})


def notices(heard: Heard) -> list[str]:
    return [event.text for event in heard.events if isinstance(event, RunNotice)]


async def test_every_call_of_a_run_is_a_row_with_its_cost(openclaw_home: TemporaryHome) -> None:
    configure(openclaw_home, "a/m")
    model = ScriptedModel(calls("ls", path="."), says("Nothing there."))
    async with openclaw_home.assistant(model) as app:
        heard = await ask(app, "look")
        rows = await app.budget.ledger.last_run("agent:main:main")
    assert [(row.ref, row.attempt, row.state) for row in rows] == [("a/m", 1, "ok"), ("a/m", 2, "ok")]
    assert heard.end.usage.cost is not None
    assert sum(row.usage.cost.total for row in rows if row.usage.cost) == pytest.approx(heard.end.usage.cost.total)


async def test_a_call_over_budget_is_not_sent(openclaw_home: TemporaryHome) -> None:
    configure(openclaw_home, "a/m", budget={"turn": 0.0001})
    model = ScriptedModel(says("never said"))
    async with openclaw_home.assistant(model) as app:
        heard = await ask(app, "hello")
    assert model.requests == []
    assert heard.end.error_code == "budget"
    assert heard.end.error and heard.end.error.startswith("not sent: a call to a/m costs about $")
    assert "budget.turn" in heard.end.error


async def test_what_the_dear_model_may_not_the_cheaper_one_does(openclaw_home: TemporaryHome) -> None:
    cheap = {"input": 0.0001, "output": 0.0001, "cacheRead": 0, "cacheWrite": 0}
    configure(
        openclaw_home,
        "dear/m",
        "cheap/m",
        prices={"cheap/m": cheap},
        budget={"day": 0.01, "cheaperModel": "cheap/m"},
    )
    dear, thrifty = ScriptedModel(), ScriptedModel(says("Cheaply done."))
    async with openclaw_home.assistant({"dear": dear, "cheap": thrifty}) as app:
        heard = await ask(app, "hello")
    assert heard.text == "Cheaply done." and dear.requests == []
    assert notices(heard) == ["answered by cheap/m; dear/m was too dear for the budget at 08:00"]


async def test_from_eighty_percent_on_the_cheaper_model_comes_first(openclaw_home: TemporaryHome) -> None:
    configure(openclaw_home, "dear/m", "cheap/m", budget={"day": 1.0, "cheaperModel": "cheap/m", "cheaperAt": 0.01})
    dear, thrifty = ScriptedModel(says("At full price.")), ScriptedModel(says("Cheaply done."))
    async with openclaw_home.assistant({"dear": dear, "cheap": thrifty}) as app:
        assert (await ask(app, "one")).text == "At full price."
        heard = await ask(app, "two")
    assert heard.text == "Cheaply done."
    assert any("is asked first" in line for line in notices(heard))


async def test_a_model_a_person_picked_is_refused_rather_than_traded(openclaw_home: TemporaryHome) -> None:
    configure(openclaw_home, "dear/m", "cheap/m", budget={"day": 0.0001, "cheaperModel": "cheap/m"})
    async with openclaw_home.assistant(ScriptedModel()) as app:
        heard = await ask(app, "hello", model="dear/m")
    assert heard.end.error and "today's budget" in heard.end.error


async def test_background_work_stops_first(openclaw_home: TemporaryHome) -> None:
    configure(openclaw_home, "a/m", budget={"day": 1.0, "noBackgroundAt": 0.01})
    model = ScriptedModel(says("one"), says("two"))
    async with openclaw_home.assistant(model) as app:
        await ask(app, "hello")
        job = await ask(app, "tidy up", session="cron:nightly")
        person = await ask(app, "still there?")
    assert job.end.error and "no background work" in job.end.error
    assert person.text == "two"


async def test_a_person_is_told_when_half_is_spent(openclaw_home: TemporaryHome) -> None:
    configure(openclaw_home, "a/m", budget={"month": 10})
    async with openclaw_home.assistant(ScriptedModel(says("x"), says("y"))) as app:
        ledger, rules = app.budget.ledger, app.budget.rules(app.key("main", None))
        earlier = ReservedCall(
            call_id="c", run_id="r", session_key="k", session_id="s", agent_id="main", provider="a", model="m"
        )
        await ledger.reserve(earlier, Estimate(4.999, 4.999), rules)
        await ledger.commit(earlier, CallEnd(usage=Usage(cost=Cost(4.999, 0, 0, 0, 4.999))), rules)
        heard, again = await ask(app, "hello"), await ask(app, "hello")
    assert len(notices(heard)) == 1 and notices(heard)[0].startswith("50 % of this month's budget is spent: $5.0")
    assert notices(again) == []


async def test_a_stopped_call_is_paid_for_as_far_as_it_went(openclaw_home: TemporaryHome) -> None:
    configure(openclaw_home, "a/m")
    async with openclaw_home.assistant(ScriptedModel((says("half an answer"), stalls()))) as app:
        heard = Heard()
        task = asyncio.create_task(ask(app, "hello", into=heard))
        async with asyncio.timeout(120):
            while not any(type(event).__name__ == "TextDelta" for event in heard.events):
                await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        (row,) = await app.budget.ledger.last_run("agent:main:main")
    assert (row.state, row.reason, row.measured) == ("failed", "aborted", False)
    assert row.usage.cost is not None and row.usage.cost.total > 0


async def test_who_answered_instead_is_said_and_remembered(openclaw_home: TemporaryHome) -> None:
    configure(openclaw_home, "a/m", "b/m")
    down = ScriptedModel(fails(RateLimited("slow down", retry_after=600)))
    async with openclaw_home.assistant({"a": down, "b": ScriptedModel(says("Here."))}) as app:
        heard = await ask(app, "hello")
        assert notices(heard) == ["answered by b/m; a/m was rate limited at 08:00"]
        assert "Last run: answered by b/m; a/m was rate limited at 08:00." in await app.budget.standing(
            app.key("main", None)
        )
        rows = await app.budget.ledger.last_run("agent:main:main")
    assert [(row.ref, row.state, row.reason) for row in rows] == [("a/m", "failed", "rate_limit"), ("b/m", "ok", "")]


async def test_a_silent_model_is_on_the_books_as_a_timeout(openclaw_home: TemporaryHome) -> None:
    configure(openclaw_home, "a/m", "b/m")
    clock = FakeClock()
    models = {"a": ScriptedModel(*(stalls() for _ in range(10))), "b": ScriptedModel(says("Here."))}
    async with openclaw_home.assistant(models, clock=clock) as app:
        heard = await clock.drive(ask(app, "hello"))
        rows = await app.budget.ledger.last_run("agent:main:main")
    assert heard.text == "Here."
    assert rows[0].reason == "timeout" and "said nothing" in rows[0].error


def profiles(home: TemporaryHome, *names: str) -> None:
    folder = home.state / "agents" / "main" / "agent"
    folder.mkdir(parents=True, exist_ok=True)
    entries = ",".join(f'"{name}": {{"type": "api_key", "provider": "a", "key": "secret-{name}"}}' for name in names)
    (folder / "auth-profiles.json").write_text(f'{{"version": 1, "profiles": {{{entries}}}}}')


async def test_a_credential_that_failed_rests_and_one_that_worked_is_remembered(openclaw_home: TemporaryHome) -> None:
    configure(openclaw_home, "a/m", "b/m", without_key=("a",))
    profiles(openclaw_home, "a:one")
    used: list[Endpoint] = []
    model = ScriptedModel(fails(AuthFailed("no")), says("From b."), says("From b again."))

    def open_provider(endpoint: Endpoint) -> ScriptedModel:
        used.append(endpoint)
        return model

    place = Environment(environ=openclaw_home.environ, home_dir=openclaw_home.root, cwd=openclaw_home.workspace)
    async with open_app(
        place, clock=FakeClock(), approver=ScriptedApprover("deny"), open_provider=open_provider
    ) as app:
        assert (await ask(app, "hello")).text == "From b."
        stats = app.models.model_set("main").keyring.stored.stats["a:one"]
        assert stats.cooldown_reason == "auth" and stats.error_count == 1
        used.clear()
        again = await ask(app, "hello again")
    assert again.text == "From b again."
    assert [endpoint.key.reveal() for endpoint in used if endpoint.key] == ["key-of-b"]
    assert notices(again) == ["answered by b/m; a/m did not accept the key at 08:00"]


async def test_a_blip_that_passes_makes_nobody_rest(openclaw_home: TemporaryHome) -> None:
    configure(openclaw_home, "a/m")
    profiles(openclaw_home, "a:one")
    clock = FakeClock()
    async with openclaw_home.assistant(ScriptedModel(fails(ServerFailed("500")), says("Fine.")), clock=clock) as app:
        heard = await clock.drive(ask(app, "hello"))
        stats = app.models.model_set("main").keyring.stored.stats["a:one"]
    assert heard.text == "Fine." and notices(heard) == []
    assert stats.cooldown_until is None and stats.last_used is not None


async def test_a_model_without_a_price_is_refused_under_a_budget(openclaw_home: TemporaryHome) -> None:
    configure(openclaw_home, "a/m", prices={"a/m": None}, budget={"day": 5})
    async with openclaw_home.assistant(ScriptedModel(says("never"))) as app:
        heard = await ask(app, "hello")
    assert heard.end.error and "the price of a/m is not known" in heard.end.error


async def test_a_model_on_this_machine_costs_nothing(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model("local/m", budget={"day": 0.01})
    async with openclaw_home.assistant(ScriptedModel(says("Free."))) as app:
        assert (await ask(app, "hello")).text == "Free."
        (row,) = await app.budget.ledger.last_run("agent:main:main")
    assert row.usage.cost is not None and row.usage.cost.total == 0


async def test_a_run_stopped_before_its_call_was_sent_owes_nothing(openclaw_home: TemporaryHome) -> None:
    configure(openclaw_home, "a/m", budget={"day": 1.0})
    model = ScriptedModel(says("never"))
    async with openclaw_home.assistant(model) as app:
        turn = RunRequest(run_id="r1", key=app.key("main", None), text="hello")
        async with aclosing(app.turns.run(turn, app.toolset())) as events:
            async for event in events:
                if isinstance(event, ModelCalled):
                    break
        payer = MeterAccount(run_id="", session_key=str(turn.key), session_id="", agent_id="main")
        (level,) = await app.budget.ledger.levels(payer, app.budget.rules(turn.key))
    assert model.requests == [] and (level.spent, level.held) == (0, 0)
