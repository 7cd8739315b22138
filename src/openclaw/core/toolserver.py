"""The seam of a program that lends us tools: what it offers, how one is called, and how it is started."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct, field

from openclaw.core.messages import Image, Text
from openclaw.core.secret import Secret

Transport = Literal["stdio", "sse", "streamable-http"]


class OfferedTool(Struct, frozen=True, kw_only=True):
    """A tool as its server describes it, word for word."""

    name: str
    title: str = ""
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    read_only: bool = False
    """What the server says of it; good enough to spare a question, not to grant anything."""


class ServerResult(Struct, frozen=True, kw_only=True):
    """What a call gave back."""

    content: tuple[Text | Image, ...] = ()
    structured: Any = None
    is_error: bool = False


class ServerLaunch(Struct, frozen=True, kw_only=True):
    """How a server is reached: a program that is started, or an address."""

    name: str
    transport: Transport
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, Secret] = field(default_factory=dict)
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, Secret] = field(default_factory=dict)
    verify: bool = True
    client_cert: str = ""
    client_key: str = ""
    connect_seconds: float = 30.0
    request_seconds: float = 60.0


class ToolServer(Protocol):
    """One server. It is started by the first question and again after it died; `close` ends it for good."""

    async def list(self) -> Sequence[OfferedTool]: ...

    async def call(self, name: str, args: Mapping[str, Any], report: Callable[[str], None]) -> ServerResult: ...

    @property
    def alive(self) -> bool:
        """Whether it runs now."""
        ...

    @property
    def listings(self) -> int:
        """Grows whenever what the server offers may have become something else."""
        ...

    async def close(self) -> None: ...
