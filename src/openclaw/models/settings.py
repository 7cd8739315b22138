"""Settings of `models` and `auth`."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from openclaw.core.provider import Compat, ModelApi, Price
from openclaw.core.secret import Secret
from openclaw.core.settings import Count, Settings
from openclaw.models.tiers import Tier

RuntimeId = Annotated[str, Meta(pattern="^(openclaw|codex|auto|acp(/.+)?)$")]
Posture = Literal["own", "native"]
InputKind = Literal["text", "image", "audio", "video"]


class RuntimeSettings(Settings, frozen=True):
    """`agentRuntime`: what carries out a turn."""

    id: RuntimeId | None = None
    """openclaw: our own loop; codex: `codex app-server`; acp or acp/NAME: an external agent of acp.agents; auto:
    codex for OpenAI's own Responses API"""
    posture: Posture | None = None
    """codex: own: it acts with our tools; native: with its own shell and patches, each judged by our policy"""


class ModelEntry(Settings, frozen=True):
    """One model of a configured provider."""

    id: Annotated[str, Meta(min_length=1)]
    """the name the provider knows the model by"""
    name: str = ""
    """a name for people"""
    api: ModelApi | None = None
    """wire API, when it differs from the provider's"""
    base_url: str | None = None
    """address, when it differs from the provider's"""
    reasoning: bool | None = None
    """whether the model can think before it answers; no, unless known"""
    input: tuple[InputKind, ...] | None = None
    """what it can read; judged by its id when left out"""
    cost: Price | None = None
    """US dollars per million tokens; leave out when unknown"""
    context_window: Count | None = None
    """tokens it can see at once"""
    max_tokens: Count | None = None
    """most tokens it may answer with"""
    params: Mapping[str, Any] = field(default_factory=dict)
    """extra request parameters"""
    headers: Mapping[str, str] = field(default_factory=dict)
    """extra request headers"""
    compat: Compat = Compat()
    """what this endpoint does differently from the API it speaks"""
    agent_runtime: RuntimeSettings = RuntimeSettings()
    """what carries out its turns"""


class ProviderSettings(Settings, frozen=True):
    """How one provider is reached."""

    base_url: str | None = None
    """address of the API, for example https://api.example.com/v1"""
    api_key: Secret | None = None
    """the key: text, ${ENV_NAME} or a SecretRef"""
    api: ModelApi | None = None
    """the wire API it speaks"""
    auth: Literal["api-key", "token", "oauth", "aws-sdk"] | None = None
    """what kind of credential it takes"""
    auth_header: bool | None = None
    """send the key as a bearer token"""
    headers: Mapping[str, str] = field(default_factory=dict)
    """extra request headers"""
    timeout_seconds: Annotated[float, Meta(gt=0)] | None = None
    """longest wait for this provider, connection and silence"""
    max_tokens: Count | None = None
    """most tokens its models may answer with"""
    params: Mapping[str, Any] = field(default_factory=dict)
    """extra request parameters for all its models"""
    models: tuple[ModelEntry, ...] = ()
    """the models it offers"""
    agent_runtime: RuntimeSettings = RuntimeSettings()
    """what carries out the turns of its models"""


class ModelsSettings(Settings, frozen=True):
    """`models`: where answers come from."""

    mode: Literal["merge", "replace"] = "merge"
    """merge with the built-in catalog, or replace it"""
    providers: Mapping[str, ProviderSettings] = field(default_factory=dict)
    """providers by id"""
    min_tier: Tier | None = None
    """weaker models are refused, whoever asks for one: small, standard or frontier, by their names"""


class AuthProfileSettings(Settings, frozen=True):
    """A named credential of a provider; the secret itself is kept in the agent's profile store."""

    provider: str
    """the provider it is for"""
    mode: Literal["api_key", "oauth", "token"] = "api_key"
    """the kind of credential"""
    email: str | None = None
    """whose it is"""


class AuthSettings(Settings, frozen=True):
    """`auth`: several credentials for one provider, and their order."""

    profiles: Mapping[str, AuthProfileSettings] = field(default_factory=dict)
    """profiles by id, for example anthropic:work"""
    order: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """profile ids by provider, first one first"""
