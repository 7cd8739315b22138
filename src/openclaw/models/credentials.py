"""Lists the credentials a provider can be called with, best first, and where each comes from. Pure."""

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from openclaw.core.errors import AuthFailed
from openclaw.core.secret import Secret
from openclaw.models.failover import CredentialStats, block_reason, blocked_until
from openclaw.models.profiles import AuthProfile, Profiles, is_expired, sort_profiles
from openclaw.models.registry import ProviderFacts
from openclaw.models.settings import AuthSettings


class Credential(Struct, frozen=True, kw_only=True):
    """A key and where it was found; `source` may be shown, `key` never is."""

    provider: str
    source: str
    key: Secret | None = None
    profile_id: str | None = None
    kind: Literal["api_key", "oauth", "token", "none"] = "api_key"
    rests_until: int | None = None
    """Milliseconds since the epoch; set while the profile must not be used except to probe it."""


class UnusableCredential(Struct, frozen=True):
    """A profile that cannot be used now, and why."""

    profile_id: str
    why: str


class Keyring(Struct, frozen=True, kw_only=True):
    """Everything a credential can come from."""

    environ: Mapping[str, str]
    auth: AuthSettings = AuthSettings()
    stored: Profiles = Profiles()


def list_credentials(
    facts: ProviderFacts, keyring: Keyring, now: int, *, model: str | None = None, pinned: str | None = None
) -> tuple[Credential, ...]:
    """The credentials to try for a call, in order; raises `AuthFailed` when there is none.

    A pinned profile is the only one. Otherwise stored profiles come first, then the environment, then the
    configuration. Profiles that must rest come last but stay in: the caller may probe one.
    """
    if pinned is not None:
        return (_pinned(facts, keyring, now, model, pinned),)
    declared = tuple(name for name, profile in keyring.auth.profiles.items() if profile.provider == facts.id)
    order = sort_profiles(
        keyring.stored, facts.id, model, now, wanted=keyring.auth.order.get(facts.id), declared=declared
    )
    profiles = [
        credential
        for name in order
        if isinstance(credential := _stored(facts.id, name, keyring, model, now), Credential)
    ]
    found = [credential for credential in profiles if credential.rests_until is None]
    variable = next((name for name in facts.env if keyring.environ.get(name, "").strip()), None)
    if variable:
        kind: Literal["api_key", "token"] = "token" if variable.endswith("_OAUTH_TOKEN") else "api_key"
        key = Secret(keyring.environ[variable].strip())
        found.append(Credential(provider=facts.id, source=f"env: {variable}", key=key, kind=kind))
    if facts.api_key:
        found.append(
            Credential(provider=facts.id, source=f"config: models.providers.{facts.id}.apiKey", key=facts.api_key)
        )
    found += [credential for credential in profiles if credential.rests_until is not None]
    if not found and not facts.needs_key:
        found.append(Credential(provider=facts.id, source="no key needed", kind="none"))
    if not found:
        raise AuthFailed(missing_key_message(facts, unusable(facts, keyring, now)))
    return tuple(found)


def unusable(facts: ProviderFacts, keyring: Keyring, now: int) -> tuple[UnusableCredential, ...]:
    """Stored profiles of the provider that cannot be used now: broken, expired or resting."""
    out = []
    for name in keyring.stored.of(facts.id):
        found = _stored(facts.id, name, keyring, None, now)
        why = found.why if isinstance(found, UnusableCredential) else block_reason(_stats(keyring, name), None, now)
        if why:
            out.append(UnusableCredential(name, why))
    return tuple(out)


def missing_key_message(facts: ProviderFacts, unusable: Sequence[UnusableCredential] = ()) -> str:
    """The error text for a provider without a key: what is wrong and which setting or variable to set."""
    names = " or ".join(facts.env)
    ways = [f"`openclaw models auth {facts.id}` asks for one and tries it"]
    ways += [f"set {names}"] if names else []
    ways.append(f"set models.providers.{facts.id}.apiKey in the configuration")
    text = f"no API key for {facts.id}: {', or '.join(ways)}"
    if facts.key_url:
        text += f" (keys are made at {facts.key_url})"
    if unusable:
        text += "; stored profiles that cannot be used: " + ", ".join(
            f"{item.profile_id} ({item.why})" for item in unusable
        )
    return text


def _pinned(facts: ProviderFacts, keyring: Keyring, now: int, model: str | None, name: str) -> Credential:
    profile = keyring.stored.profiles.get(name)
    if profile is None or profile.provider != facts.id:
        others = keyring.stored.of(facts.id)
        have = f"it has {', '.join(others)}" if others else "it has none"
        raise AuthFailed(f"no profile {name!r} for {facts.id}: {have}; leave out @{name} to use any credential")
    found = _stored(facts.id, name, keyring, model, now)
    if isinstance(found, UnusableCredential):
        raise AuthFailed(f"profile {name} cannot be used: {found.why}")
    return found


def _stored(provider: str, name: str, keyring: Keyring, model: str | None, now: int) -> Credential | UnusableCredential:
    profile = keyring.stored.profiles[name]
    if is_expired(profile, now):
        return UnusableCredential(name, "expired: sign in again")
    secret, why = _secret(profile, keyring.environ)
    if secret is None:
        return UnusableCredential(name, why)
    return Credential(
        provider=provider,
        source=f"profile: {name}",
        key=secret,
        profile_id=name,
        kind=profile.type,
        rests_until=blocked_until(_stats(keyring, name), model, now),
    )


def _stats(keyring: Keyring, name: str) -> CredentialStats:
    return keyring.stored.stats.get(name, CredentialStats())


def _secret(profile: AuthProfile, environ: Mapping[str, str]) -> tuple[Secret | None, str]:
    if profile.ref is None:
        return profile.secret, "it holds no credential"
    if profile.ref.source != "env":
        return None, f"its credential is kept in a {profile.ref.source} reference, which profiles cannot read"
    value = environ.get(profile.ref.id, "").strip()
    return (Secret(value), "") if value else (None, f"{profile.ref.id} is not set")
