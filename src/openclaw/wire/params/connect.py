"""The handshake: what a client declares about itself."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta

from openclaw.wire.params.kinds import NonEmpty, NonNegative, Params, Positive

ClientId = Literal[
    "cli",
    "gateway-client",
    "openclaw-tui",
    "openclaw-control-ui",
    "webchat-ui",
    "webchat",
    "openclaw-browser-copilot",
    "openclaw-macos",
    "openclaw-linux",
    "openclaw-ios",
    "openclaw-watchos",
    "openclaw-android",
    "node-host",
    "openclaw-worker",
    "openclaw-probe",
    "test",
    "fingerprint",
]
ClientMode = Literal["webchat", "cli", "ui", "backend", "node", "worker", "probe", "test"]


class ConnectClient(Params, frozen=True, kw_only=True):
    id: ClientId
    display_name: NonEmpty | None = None
    version: NonEmpty
    build_id: Annotated[str, Meta(min_length=1, max_length=96)] | None = None
    platform: NonEmpty
    device_family: NonEmpty | None = None
    model_identifier: NonEmpty | None = None
    time_zone: Annotated[str, Meta(min_length=1, max_length=64)] | None = None
    mode: ClientMode
    instance_id: NonEmpty | None = None


class ConnectModelCatalog(Params, frozen=True, kw_only=True):
    agent_id: NonEmpty | None = None
    session_key: NonEmpty | None = None
    short_id: NonEmpty | None = None
    slug_hint: NonEmpty | None = None


class ConnectDevice(Params, frozen=True, kw_only=True):
    id: NonEmpty
    public_key: NonEmpty
    signature: NonEmpty
    signed_at: NonNegative
    nonce: NonEmpty


class ConnectAuth(Params, frozen=True, kw_only=True):
    token: str | None = None
    bootstrap_token: str | None = None
    device_token: str | None = None
    password: str | None = None
    approval_runtime_token: str | None = None
    agent_runtime_identity_token: str | None = None


class ConnectParams(Params, frozen=True, kw_only=True):
    """Params of `connect`."""

    min_protocol: Positive
    max_protocol: Positive
    client: ConnectClient
    caps: tuple[NonEmpty, ...] | None = None
    commands: tuple[NonEmpty, ...] | None = None
    computer_use: Any = UNSET
    worker_runs: Any = UNSET
    permissions: dict[str, bool] | None = None
    path_env: str | None = None
    role: NonEmpty | None = None
    scopes: tuple[NonEmpty, ...] | None = None
    model_catalog: ConnectModelCatalog | None = None
    device: ConnectDevice | None = None
    auth: ConnectAuth | None = None
    locale: str | None = None
    user_agent: str | None = None
