"""From settings to the way a server is started. Pure."""

import hashlib

import msgspec

from openclaw.core.errors import ConfigError
from openclaw.core.toolserver import ServerLaunch
from openclaw.mcp.settings import McpServerSettings


def launch(name: str, settings: McpServerSettings, *, workspace: str) -> ServerLaunch:
    """How the server `name` is reached; raises when its settings make no sense."""
    where = f"mcp.servers.{name}"
    transport = settings.transport or ("streamable-http" if settings.url and not settings.command else "stdio")
    if transport == "stdio" and not settings.command:
        raise ConfigError(f"{where} has neither a command nor a url: set one of them")
    if transport != "stdio" and not settings.url.startswith(("http://", "https://")):
        raise ConfigError(f"{where}.url is missing or is not http(s): {transport} needs one")
    if settings.auth == "oauth":
        raise ConfigError(
            f"{where}.auth: signing in with OAuth is not supported; take it out and put a token into "
            f"{where}.headers.Authorization, for example as a secret reference"
        )
    return ServerLaunch(
        name=name,
        transport=transport,
        command=settings.command,
        args=settings.args,
        env=settings.env,
        cwd=settings.cwd or workspace,
        url=settings.url,
        headers=settings.headers,
        verify=settings.ssl_verify,
        client_cert=settings.client_cert,
        client_key=settings.client_key,
        connect_seconds=settings.connection_timeout_ms / 1000 or 30.0,
        request_seconds=settings.request_timeout_ms / 1000 or 60.0,
    )


def identity(what: ServerLaunch) -> str:
    """What makes a server this server: another program or address has to be accepted anew, another key has not."""
    parts = (what.transport, what.command, what.args, what.url, sorted(what.env), sorted(what.headers))
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()
