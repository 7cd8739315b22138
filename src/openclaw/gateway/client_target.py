"""Finds the gateway for our own commands, with the credentials to present."""

import asyncio
import sys
import time
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from openclaw.config.load import LoadedConfig, load
from openclaw.core.errors import InvalidRequest, StateError
from openclaw.core.secret import Secret
from openclaw.devices.signature import load_or_create
from openclaw.gateway.exposure import Exposure, ExposureOptions, decide, own_token
from openclaw.gateway.process import reachable, running_gateway
from openclaw.process.environment import Environment
from openclaw.protocol.auth import secret_kind
from openclaw.protocol.client import ConnectOptions, GatewayClient, Signer
from openclaw.protocol.peer import is_loopback
from openclaw.protocol.scopes import SCOPES
from openclaw.version import __version__


class ClientTarget(Struct, frozen=True, kw_only=True):
    """A gateway to talk to."""

    url: str
    token: Secret | None = None
    password: Secret | None = None
    fingerprint: str = ""
    """Of the certificate it must show; empty when any that the system trusts will do."""
    identity: Path | None = None
    """The file with our device key, for a gateway on another machine, which wants to know the device."""


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
            identity = environment.home.state / "identity" / "device.json"
            return ClientTarget(url=url, fingerprint=fingerprint, identity=identity, **given)
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


def connect_to(target: ClientTarget, caps: tuple[str, ...] = ()) -> AbstractAsyncContextManager[GatewayClient]:
    """Connects to `target`, for the length of a block."""
    from openclaw.protocol.websocket import connect

    signer: Signer | None = None
    if target.identity is not None:
        signer = load_or_create(target.identity, time.time_ns() // 1_000_000)
    who = ConnectOptions(
        version=__version__,
        platform=sys.platform,
        scopes=SCOPES,
        caps=caps,
        token=target.token,
        password=target.password,
    )
    return connect(target.url, who, signer, pinned=target.fingerprint)


def call_gateway(target: ClientTarget, method: str, params: Any, *, timeout: float, expect_final: bool = False) -> Any:
    """Calls one method and gives its answer, from a program without an event loop."""

    async def ask() -> Any:
        async with asyncio.timeout(timeout), connect_to(target) as client:
            return await client.call(method, params, timeout=None, final=expect_final)

    try:
        return asyncio.run(ask())
    except TimeoutError as error:
        raise StateError(f"{target.url} has not answered {method} within {timeout:g} s") from error
