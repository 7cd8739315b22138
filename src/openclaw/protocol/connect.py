"""The `connect` request and the hello answer: what client and gateway declare about themselves."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, structs

from openclaw.protocol.frames import MAX_BUFFERED_BYTES, MAX_PAYLOAD_BYTES, PROTOCOL, TICK_INTERVAL_MS, StateVersion
from openclaw.protocol.params import NonEmpty, NonNegative, Params, Positive

MAX_ATTACHMENT_BYTES = 19_464_192
MAX_IMAGE_BYTES = 6_291_456


# Hello: the gateway's answer.


class SessionDefaults(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    default_agent_id: str
    main_key: str
    main_session_key: str
    model_configured: bool | None = None
    scope: str | None = None


class HelloSnapshot(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The gateway's state at the moment of hello. `config_path`, `state_dir` and `auth_mode` are for admins."""

    presence: tuple[Any, ...]
    health: Any
    state_version: StateVersion
    uptime_ms: int
    applied_config_hash: str | None = None
    config_path: str | None = None
    state_dir: str | None = None
    auth_mode: str | None = None
    session_defaults: SessionDefaults | None = None

    def seen_by(self, is_admin: bool) -> "HelloSnapshot":
        return self if is_admin else structs.replace(self, config_path=None, state_dir=None, auth_mode=None)


class ServerFeatures(Struct, frozen=True, kw_only=True):
    """The gateway's features; `methods` is what its registry advertises."""

    version: str
    methods: Sequence[str]
    events: Sequence[str]
    capabilities: Sequence[str] = ()
    boot_id: str = ""


def hello_ok(
    offer: ServerFeatures, snapshot: HelloSnapshot, conn_id: str, auth: dict[str, Any], is_admin: bool
) -> dict[str, Any]:
    server = {"version": offer.version, "connId": conn_id}
    if offer.boot_id:
        server["bootId"] = offer.boot_id
    features: dict[str, list[str]] = {"methods": list(offer.methods), "events": list(offer.events)}
    if offer.capabilities:
        features["capabilities"] = list(offer.capabilities)
    return {
        "type": "hello-ok",
        "protocol": PROTOCOL,
        "server": server,
        "features": features,
        "snapshot": snapshot.seen_by(is_admin),
        "auth": auth,
        "policy": {
            "maxPayload": MAX_PAYLOAD_BYTES,
            "maxBufferedBytes": MAX_BUFFERED_BYTES,
            "tickIntervalMs": TICK_INTERVAL_MS,
            "attachments": {"maxBytes": MAX_ATTACHMENT_BYTES, "maxImageBytes": MAX_IMAGE_BYTES},
        },
    }


# Connect: the client's request.

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


# The text that a device signs.

Version = Literal["v3", "v2"]


def signed_text(params: ConnectParams, device_id: str, signed_at: int, nonce: str, version: Version = "v3") -> str:
    """The text a client with these connect params signs."""
    auth, client = params.auth, params.client
    token = (auth.token or auth.device_token or auth.bootstrap_token) if auth else None
    role, scopes = params.role or "operator", ",".join(params.scopes or ())
    fields = [version, device_id, client.id, client.mode, role, scopes, str(signed_at), token or "", nonce]
    if version == "v3":
        fields += [redact_text(client.platform), redact_text(client.device_family or "")]
    return "|".join(fields)


def redact_text(text: str) -> str:
    """A platform or family name normalised for signing and comparing: trimmed, ASCII letters lower-case."""
    return "".join(char.lower() if char.isascii() else char for char in text.strip())
