"""Settings of `mcp`: servers that lend us tools."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import field

from openclaw.core.secret import Secret
from openclaw.core.settings import Millis, Settings, doc


class ToolFilterSettings(Settings, frozen=True):
    """`mcp.servers.<id>.toolFilter`: which of a server's tools are used."""

    include: Annotated[tuple[str, ...], doc("only these: the server's own names, or globs; all when empty")] = ()
    exclude: Annotated[tuple[str, ...], doc("never these; wins over include")] = ()


class McpServerSettings(Settings, frozen=True):
    """`mcp.servers.<id>`: a program that is started, or an address."""

    enabled: Annotated[bool, doc("use this server")] = True
    command: Annotated[str, doc("the program to start")] = ""
    args: Annotated[tuple[str, ...], doc("its arguments")] = ()
    env: Annotated[
        Mapping[str, Secret], doc("variables it gets; of ours it sees HOME, PATH, SHELL, USER, LOGNAME, TERM only")
    ] = field(default_factory=dict)
    cwd: Annotated[str, doc("the directory it starts in; the workspace when absent")] = ""
    url: Annotated[str, doc("the address of a server that runs already")] = ""
    transport: Annotated[
        Literal["stdio", "sse", "streamable-http"] | None,
        doc("how it is spoken to; stdio with a command, streamable-http with a url when absent"),
    ] = None
    headers: Annotated[Mapping[str, Secret], doc("sent with every request to the url")] = field(default_factory=dict)
    connection_timeout_ms: Annotated[Millis, doc("longest wait until it is ready")] = 30_000
    request_timeout_ms: Annotated[Millis, doc("longest wait for an answer")] = 60_000
    supports_parallel_tool_calls: Annotated[bool, doc("it can work on several calls at a time")] = False
    ssl_verify: Annotated[bool, doc("check the certificate of the url")] = True
    client_cert: Annotated[str, doc("a certificate of ours, as a file")] = ""
    client_key: Annotated[str, doc("the key of that certificate, as a file")] = ""
    tool_filter: Annotated[ToolFilterSettings, doc("which of its tools are used")] = ToolFilterSettings()
    auth: Annotated[Literal["oauth"] | None, doc("oauth is not supported yet: put a token into headers")] = None


class McpSettings(Settings, frozen=True):
    """`mcp`: servers that lend us tools."""

    servers: Annotated[Mapping[str, McpServerSettings], doc("servers by name")] = field(default_factory=dict)
    session_idle_ttl_ms: Annotated[Millis, doc("a server that was not used for so long is stopped; 0 means never")] = (
        600_000
    )
