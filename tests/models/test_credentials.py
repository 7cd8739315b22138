"""Where keys come from, in which order, and what is said when there is none."""

from collections.abc import Iterable
from typing import Any

import pytest

from openclaw.core.errors import AuthFailed
from openclaw.core.secret import Secret
from openclaw.core.settings import SecretRef
from openclaw.models import registry
from openclaw.models.credentials import Credential, Keyring, list_credentials, missing_key_message, unusable
from openclaw.models.failover import CredentialStats
from openclaw.models.profiles import AuthProfile, Profiles, merge, sort_profiles
from openclaw.models.registry import ModelRegistry, ProviderFacts
from openclaw.models.settings import AuthProfileSettings, AuthSettings, ModelsSettings, ProviderSettings

NOW = 1_800_000_000_000
MINUTE = 60_000


def facts(provider: str = "anthropic", **settings: Any) -> ProviderFacts:
    providers = {provider: ProviderSettings(**settings)} if settings else {}
    return ModelRegistry(ModelsSettings(providers=providers), registry.load()).provider(provider)


def key(text: str = "k", **more: Any) -> AuthProfile:
    return AuthProfile(provider="anthropic", secret=Secret(text), **more)


def store(**profiles: AuthProfile) -> Profiles:
    return Profiles(profiles={f"anthropic:{name}": profile for name, profile in profiles.items()})


def sources(found: Iterable[Credential]) -> list[str]:
    return [credential.source for credential in found]


def test_profiles_come_before_the_environment_and_that_before_the_configuration():
    keyring = Keyring(environ={"ANTHROPIC_API_KEY": "env"}, stored=store(default=key("stored")))
    found = list_credentials(facts(api_key=Secret("conf")), keyring, NOW)
    assert sources(found) == [
        "profile: anthropic:default",
        "env: ANTHROPIC_API_KEY",
        "config: models.providers.anthropic.apiKey",
    ]
    assert [credential.key for credential in found] == [Secret("stored"), Secret("env"), Secret("conf")]


def test_the_first_variable_that_is_set_counts_and_blank_ones_do_not():
    environ = {"GEMINI_API_KEY": "  ", "GOOGLE_API_KEY": "g"}
    assert sources(list_credentials(facts("google"), Keyring(environ=environ), NOW)) == ["env: GOOGLE_API_KEY"]


def test_a_sign_in_token_from_the_environment_is_a_bearer():
    (found,) = list_credentials(facts(), Keyring(environ={"ANTHROPIC_OAUTH_TOKEN": "t"}), NOW)
    assert found.kind in ("oauth", "token")
    (found,) = list_credentials(facts(), Keyring(environ={"ANTHROPIC_API_KEY": "t"}), NOW)
    assert found.kind not in ("oauth", "token")


def test_a_missing_key_says_exactly_where_it_could_be():
    with pytest.raises(AuthFailed) as error:
        list_credentials(facts(), Keyring(environ={}), NOW)
    for part in (
        "no API key for anthropic: `openclaw models auth anthropic`",
        "set ANTHROPIC_API_KEY or ANTHROPIC_OAUTH_TOKEN",
        "models.providers.anthropic.apiKey",
        "https://platform.claude.com",
    ):
        assert part in error.value.message


@pytest.mark.parametrize("provider", ["ollama", "lmstudio", "llama-cpp", "vllm", "offline"])
def test_a_model_on_this_machine_needs_no_key(provider):
    (found,) = list_credentials(facts(provider), Keyring(environ={}), NOW)
    assert (found.kind, found.key) == ("none", None)


def test_a_custom_server_may_go_without_a_key_but_a_hosted_ollama_may_not():
    assert (
        list_credentials(facts("box", base_url="https://llm.example.com/v1"), Keyring(environ={}), NOW)[0].key is None
    )
    with pytest.raises(AuthFailed, match="OLLAMA_API_KEY"):
        list_credentials(facts("ollama", base_url="https://ollama.com"), Keyring(environ={}), NOW)


def test_a_pinned_profile_is_the_only_one():
    keyring = Keyring(environ={"ANTHROPIC_API_KEY": "env"}, stored=store(default=key("a"), work=key("b")))
    (found,) = list_credentials(facts(), keyring, NOW, pinned="anthropic:work")
    assert found.key == Secret("b")


def test_a_profile_that_is_not_there_is_answered_with_those_that_are():
    keyring = Keyring(environ={}, stored=store(default=key()))
    with pytest.raises(AuthFailed, match="no profile 'work' for anthropic: it has anthropic:default"):
        list_credentials(facts(), keyring, NOW, pinned="work")


def test_an_expired_sign_in_is_not_used_and_the_person_is_told():
    token = AuthProfile(provider="anthropic", type="oauth", secret=Secret("t"), expires=NOW + 4 * MINUTE)
    keyring = Keyring(environ={}, stored=store(mail=token))
    with pytest.raises(AuthFailed, match=r"anthropic:mail \(expired: sign in again\)"):
        list_credentials(facts(), keyring, NOW)
    fresh = AuthProfile(provider="anthropic", type="oauth", secret=Secret("t"), expires=NOW + 6 * MINUTE)
    assert list_credentials(facts(), Keyring(environ={}, stored=store(mail=fresh)), NOW)[0].kind in ("oauth", "token")


def test_a_profile_may_point_to_a_variable():
    profile = AuthProfile(provider="anthropic", ref=SecretRef(source="env", id="MY_KEY"))
    keyring = Keyring(environ={"MY_KEY": "v"}, stored=store(ref=profile))
    assert list_credentials(facts(), keyring, NOW)[0].key == Secret("v")
    with pytest.raises(AuthFailed, match="MY_KEY is not set"):
        list_credentials(facts(), Keyring(environ={}, stored=store(ref=profile)), NOW)


def test_a_resting_profile_comes_last_and_is_marked():
    stored = Profiles(
        profiles={"anthropic:a": key("a")},
        stats={"anthropic:a": CredentialStats(cooldown_until=NOW + 9, cooldown_reason="timeout")},
    )
    keyring = Keyring(environ={"ANTHROPIC_API_KEY": "env"}, stored=stored)
    found = list_credentials(facts(), keyring, NOW)
    assert sources(found) == ["env: ANTHROPIC_API_KEY", "profile: anthropic:a"]
    assert [credential.rests_until for credential in found] == [None, NOW + 9]
    assert [(item.profile_id, item.why) for item in unusable(facts(), keyring, NOW)] == [("anthropic:a", "timeout")]


def test_the_configured_order_and_declared_profiles_are_respected():
    stored = store(a=key("a"), b=key("b"), c=key("c"))
    auth = AuthSettings(order={"anthropic": ("anthropic:c", "anthropic:gone", "anthropic:a")})
    found = list_credentials(facts(), Keyring(environ={}, auth=auth, stored=stored), NOW)
    assert [item.profile_id for item in found] == ["anthropic:c", "anthropic:a"]
    declared = AuthSettings(profiles={"anthropic:b": AuthProfileSettings(provider="anthropic")})
    found = list_credentials(facts(), Keyring(environ={}, auth=declared, stored=stored), NOW)
    assert [item.profile_id for item in found] == ["anthropic:b"]


def test_a_credential_never_shows_its_key():
    keyring = Keyring(environ={"ANTHROPIC_API_KEY": "sk-very-secret-value"})
    found = list_credentials(facts(api_key=Secret("sk-other-secret")), keyring, NOW)
    assert "secret" not in repr(found)
    assert "secret" not in missing_key_message(facts(api_key=Secret("sk-other-secret")))


def test_without_an_order_sign_ins_come_first_then_the_one_that_rested_longest():
    stored = Profiles(
        profiles={
            "k-new": key(),
            "k-old": key(),
            "tok": key(type="token"),
            "mail": key(type="oauth"),
            "stale": key(type="oauth", expires=NOW),
            "other": AuthProfile(provider="openai", secret=Secret("k")),
            "tired": key(type="oauth"),
            "broke": key(type="oauth"),
        },
        stats={
            "k-new": CredentialStats(last_used=20),
            "k-old": CredentialStats(last_used=10),
            "tired": CredentialStats(cooldown_until=NOW + 5),
            "broke": CredentialStats(disabled_until=NOW + 3),
        },
    )
    assert sort_profiles(stored, "anthropic", "m", NOW) == ("mail", "tok", "k-old", "k-new", "stale", "broke", "tired")


def test_a_rest_for_one_model_does_not_move_a_profile_for_another():
    stored = Profiles(
        profiles={"a": key(), "b": key()}, stats={"a": CredentialStats(cooldown_until=NOW + 5, cooldown_model="big")}
    )
    assert sort_profiles(stored, "anthropic", "big", NOW) == ("b", "a")
    assert sort_profiles(stored, "anthropic", "small", NOW) == ("a", "b")


def test_a_stored_order_beats_a_configured_one():
    stored = Profiles(profiles={"a": key(), "b": key()}, order={"anthropic": ("b", "a", "b")})
    assert sort_profiles(stored, "anthropic", None, NOW, wanted=("a", "b")) == ("b", "a")


def test_an_agents_own_profiles_lie_over_the_shared_ones():
    shared = Profiles(profiles={"a": key("1"), "b": key("2")}, order={"anthropic": ("a",)})
    both = merge(shared, Profiles(profiles={"b": key("3")}, order={"openai": ("x",)}))
    assert both.profiles["a"].secret == Secret("1")
    assert both.profiles["b"].secret == Secret("3")
    assert both.order == {"anthropic": ("a",), "openai": ("x",)}
