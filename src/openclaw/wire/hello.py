"""`hello-ok`: what a client learns when it is let in. It is told of nothing that does not work. Pure."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, structs

from openclaw.wire.frames import MAX_BUFFERED_BYTES, MAX_PAYLOAD_BYTES, PROTOCOL, TICK_INTERVAL_MS, StateVersion

MAX_ATTACHMENT_BYTES = 19_464_192
MAX_IMAGE_BYTES = 6_291_456


class SessionDefaults(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    default_agent_id: str
    main_key: str
    main_session_key: str
    model_configured: bool | None = None
    scope: str | None = None


class HelloSnapshot(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The state of the gateway at the moment of hello. `config_path`, `state_dir` and `auth_mode` are for admins."""

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


class Offer(Struct, frozen=True, kw_only=True):
    """What this gateway can do; `methods` is what its registry advertises."""

    version: str
    methods: Sequence[str]
    events: Sequence[str]
    capabilities: Sequence[str] = ()
    boot_id: str = ""


def hello_ok(
    offer: Offer, snapshot: HelloSnapshot, conn_id: str, auth: dict[str, Any], is_admin: bool
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
