"""Who is asked, and who comes next when that fails."""

from typing import Any

import msgspec
import pytest

from openclaw.core.errors import (
    AuthFailed,
    BillingFailed,
    ContextTooLong,
    ModelRefused,
    NetworkFailed,
    Overloaded,
    ProviderError,
    RateLimited,
    ServerFailed,
)
from openclaw.core.provider import Endpoint
from openclaw.core.secret import Secret
from openclaw.models import registry
from openclaw.models.model_set import build_model_set
from openclaw.models.profiles import AuthProfile, Profiles
from openclaw.models.settings import AuthSettings, ModelsSettings
from openclaw.runs.route import FailoverRoute
from openclaw.testing import FakeClock, ScriptedModel


def provider(url: str = "https://api.example.com/v1", **more: Any) -> dict[str, Any]:
    return {"api": "openai-completions", "baseUrl": url, "models": [{"id": "m"}], "apiKey": "k", **more}


class Walk:
    """A route over providers `a`, `b` and `c`, and the endpoints it opened."""

    def __init__(self, *, stored: Profiles | None = None, **providers: dict[str, Any]) -> None:
        self.clock = FakeClock()
        self.opened: list[Endpoint] = []
        names = list(providers)
        situation = build_model_set(
            msgspec.convert({"providers": providers}, ModelsSettings, dec_hook=lambda kind, value: kind(value)),
            registry.load(),
            environ={},
            probe=tuple,
            auth=AuthSettings(),
            stored=stored or Profiles(),
            primary=f"{names[0]}/m",
            fallbacks=[f"{name}/m" for name in names[1:]],
        )
        self.route = FailoverRoute(
            situation,
            situation.chain(),
            open_provider=self.open,
            clock=self.clock,
            thinking=lambda model: "off",
            run_timeout=None,
            jitter=lambda: 0.5,
        )

    def open(self, endpoint: Endpoint) -> ScriptedModel:
        self.opened.append(endpoint)
        return ScriptedModel()

    def fails(self, error: ProviderError) -> float | None:
        return self.route.failed(error)

    @property
    def model(self) -> str:
        return self.route.attempt.model.ref


def test_a_failure_that_may_pass_is_tried_again_after_a_growing_wait() -> None:
    walk = Walk(a=provider(), b=provider())
    assert [walk.fails(ServerFailed("500")) for _ in range(4)] == [1.5, 2.5, 4.5, 8.5]
    assert walk.model == "a/m"


def test_after_an_answer_the_count_begins_again() -> None:
    walk = Walk(a=provider())
    walk.fails(ServerFailed("500"))
    walk.fails(ServerFailed("500"))
    walk.route.answered()
    assert walk.fails(ServerFailed("500")) == 1.5


def test_the_providers_own_wait_is_a_minimum_and_a_long_one_leads_on() -> None:
    walk = Walk(a=provider(), b=provider())
    assert walk.fails(RateLimited("429", retry_after=20.0)) == 20.0
    assert walk.fails(RateLimited("429", retry_after=61.0)) == 0.0
    assert walk.model == "b/m"


@pytest.mark.parametrize("error", [AuthFailed("401"), BillingFailed("402"), Overloaded("529", retry_after=120.0)])
def test_what_waiting_cannot_mend_goes_to_the_next_model(error: ProviderError) -> None:
    walk = Walk(a=provider(), b=provider())
    assert walk.fails(error) == 0.0
    assert walk.model == "b/m"


@pytest.mark.parametrize("error", [ContextTooLong("too long"), ModelRefused("no")])
def test_a_refusal_or_a_conversation_too_long_is_final(error: ProviderError) -> None:
    walk = Walk(a=provider(), b=provider())
    assert walk.fails(error) is None
    assert walk.model == "a/m"
    assert walk.route.verdict(error) == error.message


def test_a_second_key_of_the_same_provider_is_tried_before_another_model() -> None:
    stored = Profiles(profiles={"a:work": AuthProfile(provider="a", secret=Secret("first"))})
    walk = Walk(stored=stored, a=provider(), b=provider())
    assert walk.fails(AuthFailed("401")) == 0.0
    assert walk.model == "a/m"
    assert [endpoint.key for endpoint in walk.opened] == [Secret("first"), Secret("k")]
    assert walk.fails(AuthFailed("401")) == 0.0
    assert walk.model == "b/m"


def test_a_server_on_this_machine_that_is_not_running_is_not_waited_for() -> None:
    walk = Walk(a=provider("http://127.0.0.1:9/v1"), b=provider())
    assert walk.fails(NetworkFailed("refused")) == 1.5
    assert walk.fails(NetworkFailed("refused")) == 0.0
    assert walk.model == "b/m"


KEYLESS = {"baseUrl": "https://api.openai.com/v1", "models": [{"id": "m"}]}


def test_a_model_without_a_key_is_passed_over_and_remembered() -> None:
    walk = Walk(openai=KEYLESS, b=provider())
    assert walk.model == "b/m"
    assert [(failure.ref, failure.reason) for failure in walk.route.failures] == [("openai/m", "auth")]


def test_without_any_key_the_first_model_says_what_is_missing() -> None:
    with pytest.raises(AuthFailed, match="OPENAI_API_KEY"):
        Walk(openai=KEYLESS, groq=KEYLESS)


def test_when_all_fail_each_is_listed_with_its_reason() -> None:
    walk = Walk(a=provider(), b=provider(), c=provider())
    walk.fails(AuthFailed("bad key"))
    walk.fails(BillingFailed("no money"))
    last = AuthFailed("no entry")
    assert walk.fails(last) is None
    assert walk.route.verdict(last) == (
        "none of 3 models answered: a/m: bad key (auth); b/m: no money (billing); c/m: no entry (auth)"
    )


def test_the_candidate_left_behind_is_not_asked_again() -> None:
    walk = Walk(a=provider(), b=provider())
    walk.fails(AuthFailed("x"))
    assert walk.fails(AuthFailed("x")) is None
    assert [endpoint.provider for endpoint in walk.opened] == ["a", "b"]
