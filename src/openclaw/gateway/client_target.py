"""Finds the gateway for our own commands, with the credentials to present."""

from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from openclaw.config.load import LoadedConfig, load
from openclaw.core.errors import InvalidRequest
from openclaw.core.secret import Secret
from openclaw.devices.signature import load_or_create
from openclaw.gateway.exposure import Exposure, ExposureOptions, decide
from openclaw.gateway.running import ClientTarget, own_token, reachable, running_gateway
from openclaw.process.environment import Environment
from openclaw.protocol.auth import secret_kind
from openclaw.protocol.peer import is_loopback


def exposure_of(
    environment: Environment, loaded: LoadedConfig | None = None, wishes: ExposureOptions | None = None
) -> Exposure:
    """Where a gateway of this home would listen."""
    loaded = loaded or load(environment.home, environment.environ)
    return decide(loaded.config.gateway, loaded.variables, wishes or ExposureOptions())


def find_gateway(
    environment: Environment,
    *,
    url: str | None = None,
    port: int | None = None,
    token: str | None = None,
    password: str | None = None,
    fingerprint: str = "",
) -> ClientTarget:
    """The gateway that is meant; credentials of this home are sent to a gateway on this machine only."""
    url = url or environment.environ.get("OPENCLAW_GATEWAY_URL") or None
    given: dict[str, Any] = {
        "token": Secret(token) if token else None,
        "password": Secret(password) if password else None,
    }
    if url is not None:
        parts = urlsplit(url)
        if parts.scheme not in ("ws", "wss") or not parts.hostname:
            raise InvalidRequest(f"{url} is not the address of a gateway: write ws://host:port or wss://host")
        if not is_loopback(parts.hostname):
            signer = partial(load_or_create, environment.home.state / "identity" / "device.json")
            return ClientTarget(url=url, fingerprint=fingerprint, signer=signer, **given)
        return ClientTarget(url=url, fingerprint=fingerprint, **_credentials(environment, given))
    found = running_gateway(environment.home.state)
    exposure = exposure_of(environment, wishes=ExposureOptions(port=port))
    port = port or (found.port if found else 0) or exposure.port
    address = reachable(found.address if found else exposure.hosts[-1])
    pinned = found.fingerprint if found and port == found.port else ""
    scheme = "wss" if pinned else "ws"
    return ClientTarget(url=f"{scheme}://{address}:{port}", fingerprint=pinned, **_credentials(environment, given))


def _credentials(environment: Environment, given: Mapping[str, Secret | None]) -> dict[str, Any]:
    if any(given.values()):
        return dict(given)
    exposure = exposure_of(environment)
    if exposure.mode == "none":
        return dict(given)
    kind = secret_kind(exposure.mode)
    return {**given, kind: exposure.secret or (own_token(environment.home.state) if kind == "token" else None)}
