"""Settings of `models` and `auth`."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from openclaw.core.provider import Compat, ModelApi, Price
from openclaw.core.secret import Secret
from openclaw.core.settings import Count, Settings, doc
from openclaw.models.tiers import Tier

RuntimeId = Annotated[str, Meta(pattern="^(openclaw|codex|auto|acp(/.+)?)$")]
Posture = Literal["own", "native"]
InputKind = Literal["text", "image", "audio", "video"]


class RuntimeSettings(Settings, frozen=True):
    """`agentRuntime`: what carries out a turn."""

    id: Annotated[
        RuntimeId | None,
        doc(
            "openclaw: our own loop; codex: `codex app-server`; acp or acp/NAME: an external agent of acp.agents; "
            "auto: codex for OpenAI's own Responses API"
        ),
    ] = None
    posture: Annotated[
        Posture | None,
        doc("codex: own: it acts with our tools; native: with its own shell and patches, each judged by our policy"),
    ] = None


class ModelEntry(Settings, frozen=True):
    """One model of a configured provider."""

    id: Annotated[str, doc("the name the provider knows the model by", min_length=1)]
    name: Annotated[str, doc("a name for people")] = ""
    api: Annotated[ModelApi | None, doc("wire API, when it differs from the provider's")] = None
    base_url: Annotated[str | None, doc("address, when it differs from the provider's")] = None
    reasoning: Annotated[bool | None, doc("whether the model can think before it answers; no, unless known")] = None
    input: Annotated[tuple[InputKind, ...] | None, doc("what it can read; judged by its id when left out")] = None
    cost: Annotated[Price | None, doc("US dollars per million tokens; leave out when unknown")] = None
    context_window: Annotated[Count | None, doc("tokens it can see at once")] = None
    max_tokens: Annotated[Count | None, doc("most tokens it may answer with")] = None
    params: Annotated[Mapping[str, Any], doc("extra request parameters")] = field(default_factory=dict)
    headers: Annotated[Mapping[str, str], doc("extra request headers")] = field(default_factory=dict)
    compat: Annotated[Compat, doc("what this endpoint does differently from the API it speaks")] = Compat()
    agent_runtime: Annotated[RuntimeSettings, doc("what carries out its turns")] = RuntimeSettings()


class ProviderSettings(Settings, frozen=True):
    """How one provider is reached."""

    base_url: Annotated[str | None, doc("address of the API, for example https://api.example.com/v1")] = None
    api_key: Annotated[Secret | None, doc("the key: text, ${ENV_NAME} or a SecretRef")] = None
    api: Annotated[ModelApi | None, doc("the wire API it speaks")] = None
    auth: Annotated[Literal["api-key", "token", "oauth", "aws-sdk"] | None, doc("what kind of credential it takes")] = (
        None
    )
    auth_header: Annotated[bool | None, doc("send the key as a bearer token")] = None
    headers: Annotated[Mapping[str, str], doc("extra request headers")] = field(default_factory=dict)
    timeout_seconds: Annotated[
        Annotated[float, Meta(gt=0)] | None, doc("longest wait for this provider, connection and silence")
    ] = None
    max_tokens: Annotated[Count | None, doc("most tokens its models may answer with")] = None
    params: Annotated[Mapping[str, Any], doc("extra request parameters for all its models")] = field(
        default_factory=dict
    )
    models: Annotated[tuple[ModelEntry, ...], doc("the models it offers")] = ()
    agent_runtime: Annotated[RuntimeSettings, doc("what carries out the turns of its models")] = RuntimeSettings()


class ModelsSettings(Settings, frozen=True):
    """`models`: where answers come from."""

    mode: Annotated[Literal["merge", "replace"], doc("merge with the built-in catalog, or replace it")] = "merge"
    providers: Annotated[Mapping[str, ProviderSettings], doc("providers by id")] = field(default_factory=dict)
    min_tier: Annotated[
        Tier | None, doc("weaker models are refused, whoever asks for one: small, standard or frontier, by their names")
    ] = None


class AuthProfileSettings(Settings, frozen=True):
    """A named credential of a provider; the secret itself is kept in the agent's profile store."""

    provider: Annotated[str, doc("the provider it is for")]
    mode: Annotated[Literal["api_key", "oauth", "token"], doc("the kind of credential")] = "api_key"
    email: Annotated[str | None, doc("whose it is")] = None


class AuthSettings(Settings, frozen=True):
    """`auth`: several credentials for one provider, and their order."""

    profiles: Annotated[Mapping[str, AuthProfileSettings], doc("profiles by id, for example anthropic:work")] = field(
        default_factory=dict
    )
    order: Annotated[Mapping[str, tuple[str, ...]], doc("profile ids by provider, first one first")] = field(
        default_factory=dict
    )
