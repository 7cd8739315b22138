"""The messages between the gateway and a plugin's process: msgpack, each behind four bytes of length. Pure.

The gateway sends `HostCall`; the plugin answers with `HostItem`s for a stream, then `HostDone` or `HostFailed`.
Payloads are decoded by whoever knows their type, so that a broken one fails its call and nothing else.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Raw, Struct, field, structs

from openclaw.core.embedder import EmbedderEndpoint, Traits
from openclaw.core.events import CallDelta, ModelEvent, TextDelta, ThinkingDelta
from openclaw.core.events import Done as ModelDone
from openclaw.core.messages import Image, Text
from openclaw.core.plugin import Command, Hook, HttpRoute, Method
from openclaw.core.provider import Endpoint, ModelRequest
from openclaw.core.secret import Secret
from openclaw.core.tool import ToolSpec

MAX_FRAME = 32 << 20
OUT_OF_MEMORY = 97
"""The exit code of a process that ran out of memory."""
WINDOW = 64
"""How many items of a stream may be unread before the plugin waits."""
T = TypeVar("T")

Op = Literal["tool", "hook", "command", "method", "route", "listen", "send", "typing", "stream", "embed", "close"]


class HostStart(Struct, frozen=True, kw_only=True, tag=True):
    """The first message to a plugin's process."""

    id: str
    directory: str
    entry: str
    state: str
    config: dict[str, Any]
    config_schema: dict[str, Any]
    services: tuple[str, ...]
    """Those it may start: the ones its manifest declares."""
    memory_bytes: int


class HostCall(Struct, frozen=True, tag=True):
    id: int
    op: Op
    name: str
    payload: Raw


class Cancel(Struct, frozen=True, tag=True):
    id: int


class Taken(Struct, frozen=True, tag=True):
    """So many items of a stream were read."""

    id: int
    count: int


class Ping(Struct, frozen=True, tag=True):
    number: int


class HostStop(Struct, frozen=True, tag=True):
    """Stop the services, then the process."""


ToPlugin = HostStart | HostCall | Cancel | Taken | Ping | HostStop


class ToolDeclared(Struct, frozen=True, kw_only=True):
    spec: ToolSpec
    effects: int
    optional: bool = False


class ChannelDeclared(Struct, frozen=True, kw_only=True):
    name: str
    types: bool = False
    """Whether it can show that somebody types."""


class Ready(Struct, frozen=True, kw_only=True, tag=True):
    """The plugin has registered. Functions (`run`) stay in its process: None is sent in their place."""

    tools: tuple[ToolDeclared, ...] = ()
    hooks: tuple[Hook, ...] = ()
    commands: tuple[Command, ...] = ()
    methods: tuple[Method, ...] = ()
    routes: tuple[HttpRoute, ...] = ()
    channels: tuple[ChannelDeclared, ...] = ()
    providers: tuple[str, ...] = ()
    embedders: tuple[str, ...] = ()
    services: tuple[str, ...] = ()


class HostRefused(Struct, frozen=True, tag=True):
    """The plugin cannot run; `why` is one line for a person."""

    why: str


class HostItem(Struct, frozen=True, tag=True):
    """One of several answers to a call: an item of a stream, or the progress of a tool."""

    id: int
    payload: Raw


class HostDone(Struct, frozen=True, tag=True):
    id: int
    payload: Raw


class HostFailed(Struct, frozen=True, tag=True):
    """The plugin's code raised: `kind` is the exception's name, `message` its text."""

    id: int
    kind: str
    message: str
    code: str = ""
    """The code of an error of our own tree; empty for any other exception."""


class Pong(Struct, frozen=True, tag=True):
    number: int


class HostNote(Struct, frozen=True, tag=True):
    """A line for the log."""

    level: int
    text: str


FromPlugin = Ready | HostRefused | HostItem | HostDone | HostFailed | Pong | HostNote


class MalformedMessage(ValueError):
    """The bytes are not a message of this protocol."""


def _decode_function(kind: Any, value: None) -> Any:
    """Stands in for the function of a registration until `proxies` sets the one that calls through the pipe."""
    return _decode_function


_encoder = msgspec.msgpack.Encoder()
TO_PLUGIN: msgspec.msgpack.Decoder[ToPlugin] = msgspec.msgpack.Decoder(ToPlugin)
FROM_PLUGIN: msgspec.msgpack.Decoder[FromPlugin] = msgspec.msgpack.Decoder(FromPlugin, dec_hook=_decode_function)


def encode_payload(value: Any) -> Raw:
    """Encodes `value`; a credential in it is an error."""
    return Raw(_encoder.encode(value))


def encode_with_credentials(value: Any) -> Raw:
    """Encodes `value`, credentials included, for the plugin they belong to."""
    return Raw(msgspec.msgpack.encode(value, enc_hook=_plain))


def decode_payload(payload: Raw, kind: type[T]) -> T:
    """Decodes a payload as `kind` (`object` is anything); raises `MalformedMessage` when it does not fit."""
    wanted: Any = Any if kind is object else kind
    with _malformed():
        found: T = msgspec.msgpack.decode(payload, type=wanted, dec_hook=_handle)
    return found


def frame(value: ToPlugin | FromPlugin) -> bytes:
    body = _encoder.encode(value)
    if len(body) > MAX_FRAME:
        raise MalformedMessage(f"a message of {len(body):,} bytes is too long: {MAX_FRAME:,} is the most")
    return len(body).to_bytes(4, "big") + body


def length(header: bytes) -> int:
    size = int.from_bytes(header, "big")
    if not 0 < size <= MAX_FRAME:
        raise MalformedMessage(f"a message of {size:,} bytes was announced; {MAX_FRAME:,} is the most")
    return size


def decode(body: bytes, decoder: msgspec.msgpack.Decoder[T]) -> T:
    """Decodes a message with `TO_PLUGIN` or `FROM_PLUGIN`."""
    with _malformed():
        return decoder.decode(body)


@contextmanager
def _malformed() -> Iterator[None]:
    try:
        yield
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedMessage(str(error)) from None


# Payloads of calls.


def copy_fields(source: Any, kind: type[T], **own: Any) -> T:
    """A `kind` with the fields of `source` that it has too, and with `own`."""
    names = (field.name for field in structs.fields(kind) if field.name not in own)  # type: ignore[arg-type]
    return kind(**{name: getattr(source, name) for name in names}, **own)


class ToolInput(Struct, frozen=True, kw_only=True):
    """A call of a tool, without the variables that skills give to commands."""

    args: dict[str, Any]
    call_id: str
    workspace: str
    session_key: str = ""
    run_id: str = ""
    agent_id: str = "main"
    tools: tuple[str, ...] = ()
    accepts_images: bool = True


class ToolOutput(Struct, frozen=True, kw_only=True):
    content: tuple[Text | Image, ...] = ()
    details: dict[str, Any] | None = None
    is_error: bool = False
    end_matters: bool = False


class HookInput(Struct, frozen=True):
    event: Raw
    context: Raw


class ProviderInput(Struct, frozen=True, kw_only=True):
    endpoint: Endpoint
    request: ModelRequest


class EmbedInput(Struct, frozen=True, kw_only=True):
    endpoint: EmbedderEndpoint
    texts: tuple[str, ...] = ()
    """Without texts it asks for the model's properties."""
    query: bool = False
    """The text is a query, which some models embed differently."""


class EmbedOutput(Struct, frozen=True, kw_only=True):
    vectors: tuple[tuple[float, ...], ...] = ()
    model: str = ""
    traits: Traits = field(default_factory=Traits)


class Streamed(Struct, frozen=True, omit_defaults=True):
    """A model event; exactly one field is set."""

    text: str | None = None
    thinking: str | None = None
    call: CallDelta | None = None
    done: ModelDone | None = None


def streamed(event: ModelEvent) -> Streamed:
    match event:
        case TextDelta(text=text):
            return Streamed(text=text)
        case ThinkingDelta(text=text):
            return Streamed(thinking=text)
        case CallDelta():
            return Streamed(call=event)
        case _:
            return Streamed(done=event)


def model_event(item: Streamed) -> ModelEvent:
    if item.text is not None:
        return TextDelta(item.text)
    if item.thinking is not None:
        return ThinkingDelta(item.thinking)
    found = item.call or item.done
    if found is None:
        raise MalformedMessage("a model event without content")
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, Secret):
        return value.reveal()
    raise TypeError(f"a {type(value).__name__} cannot be sent to a plugin")


def _handle(kind: type, value: Any) -> Any:
    if kind is Secret and isinstance(value, str):
        return Secret(value)
    raise TypeError(f"not a {kind.__name__}")
