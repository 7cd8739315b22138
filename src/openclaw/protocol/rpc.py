"""RPC methods: registered with their params type, authorised, decoded and called; exceptions become error frames here.

A handler is `async def wake(params, caller) -> payload`, or an async generator when a request has more than one answer.
"""

import inspect
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing
from functools import lru_cache
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct

from openclaw.core.errors import OpenClawError, ProviderError, SessionBusy, StateError
from openclaw.protocol import scopes
from openclaw.protocol.frames import INVALID_REQUEST, UNAVAILABLE, ErrorShape, RequestFrame, Response, encode, failure
from openclaw.protocol.params import invalid_params
from openclaw.protocol.scopes import ADMIN, Role, allows, missing_scope, wrong_role


class Caller(Struct, frozen=True, kw_only=True):
    """An authenticated client. `scopes` is what the gateway granted, never what the client declared."""

    conn_id: str
    role: Role = "operator"
    scopes: tuple[str, ...] = ()
    client_id: str = "cli"
    client_mode: str = "cli"
    version: str = ""
    platform: str = ""
    device_family: str = ""
    display_name: str = ""
    instance_id: str = ""
    device_id: str | None = None
    caps: frozenset[str] = frozenset()
    commands: tuple[str, ...] = ()
    remote_ip: str = ""
    local: bool = False
    """A direct loopback connection to a loopback host."""

    def may(self, scope: str | None) -> bool:
        return scopes.allows(self.scopes, scope)


@lru_cache(maxsize=1_000)
def surface_of(caller: Caller) -> str:
    """What a person at this client looks at; empty for one that shows no questions about commands."""
    if not caller.may(scopes.APPROVALS) or caller.client_mode not in ("webchat", "ui", "cli"):
        return ""
    return "control-ui" if caller.client_mode == "webchat" else caller.client_mode


log = logging.getLogger(__name__)

P = TypeVar("P")
RpcHandler = Callable[[Any, Caller], Awaitable[Any] | AsyncIterator[Any]]


class MethodRefusal(OpenClawError):
    """A handler's failure with a protocol error code that `core.errors` lacks."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        details: dict[str, Any] | None = None,
        retryable: bool | None = None,
        retry_after_ms: int | None = None,
    ) -> None:
        super().__init__(message)
        self.error = ErrorShape(
            code=code, message=message, details=details, retryable=retryable, retry_after_ms=retry_after_ms
        )


class MethodFailed(Struct, frozen=True):
    """A failed answer that still has a payload, such as a run that ended in an error."""

    error: ErrorShape
    payload: Any = UNSET


class RpcMethod(Struct, frozen=True):
    """One method. `scope` None is open to every connection with the right role."""

    name: str
    params: type[Any]
    """A `Params` type; plugin methods, which validate themselves, take any object."""
    handler: RpcHandler
    scope: str | None = ADMIN
    roles: tuple[Role, ...] = ("operator",)
    advertised: bool = True


class FindsMethods(Protocol):
    """Finds the method of a request."""

    def find(self, name: str) -> RpcMethod | None: ...


class MethodGroup(Struct, frozen=True):
    """Methods that are built when one of them is called first, so that what answers them is loaded no earlier."""

    names: tuple[str, ...]
    build: Callable[[], Iterable[RpcMethod]]
    unlisted: tuple[str, ...] = ()
    """Those of `names` that are not advertised."""


class MethodRegistry:
    """All methods of this gateway; nothing else is advertised."""

    def __init__(self, methods: Iterable[RpcMethod] = ()) -> None:
        self._methods: dict[str, RpcMethod] = {}
        self._groups: dict[str, MethodGroup] = {}
        """By the name of each method that is not built yet."""
        for method in methods:
            self.add(method)

    def add(self, method: RpcMethod) -> None:
        self._refuse_twice(method.name)
        self._methods[method.name] = method

    def add_group(self, group: MethodGroup) -> None:
        for name in group.names:
            self._refuse_twice(name)
            self._groups[name] = group

    def _refuse_twice(self, name: str) -> None:
        if name in self._methods or name in self._groups:
            raise ValueError(f"method {name} is registered twice")

    def find(self, name: str) -> RpcMethod | None:
        if group := self._groups.get(name):
            self._build(group)
        return self._methods.get(name)

    def _build(self, group: MethodGroup) -> None:
        built = {method.name: method for method in group.build()}
        if set(built) != set(group.names):
            raise ValueError(f"built other methods than {', '.join(group.names)}: {', '.join(built)}")
        self._methods |= built
        for name in group.names:
            del self._groups[name]

    def __contains__(self, name: str) -> bool:
        return name in self._methods or name in self._groups

    def names(self) -> tuple[str, ...]:
        """The names of the methods that were added, without those of plugins."""
        return (*self._methods, *self._groups)

    def advertised(self, role: Role = "operator") -> list[str]:
        built = [method.name for method in self._methods.values() if method.advertised and role in method.roles]
        later = [name for name, group in self._groups.items() if name not in group.unlisted and role == "operator"]
        return sorted([*built, *later])


async def dispatch(registry: FindsMethods, request: RequestFrame, caller: Caller) -> AsyncGenerator[Response, None]:
    """Every answer to `request`, each ready to send. Only a cancellation leaves this function as an exception."""
    try:
        method = authorize_method(registry, request.method, caller)
        params = read_params(method.name, method.params, request.params)
        made = method.handler(params, caller)
        if inspect.isasyncgen(made):
            async with aclosing(made):
                async for answer in made:
                    yield _response(request.id, answer)
        else:
            yield _response(request.id, await made)  # type: ignore[misc]
    except OpenClawError as error:
        yield failure(request.id, to_error_shape(error))
    except Exception:
        log.exception("%s failed (request %s, connection %s)", request.method, request.id, caller.conn_id)
        yield failure(request.id, BROKEN)


BROKEN = ErrorShape(code=UNAVAILABLE, message="the gateway failed to answer; its log says why")


def authorize_method(registry: FindsMethods, name: str, caller: Caller) -> RpcMethod:
    """The method, if this caller may call it. An unknown one is as closed as an admin's."""
    method = registry.find(name)
    if method is None:
        if caller.role != "operator":
            raise refusal(wrong_role(caller.role))
        if not allows(caller.scopes, ADMIN):
            raise refusal(missing_scope(ADMIN))
        raise MethodRefusal(INVALID_REQUEST, f"unknown method: {name}")
    if caller.role not in method.roles:
        raise refusal(wrong_role(caller.role))
    if caller.role == "operator" and not allows(caller.scopes, method.scope):
        raise refusal(missing_scope(method.scope or ADMIN))
    return method


def read_params(method: str, kind: type[P], params: Raw) -> P:
    """Decodes params as their type; absent ones are an empty object."""
    text = bytes(params)
    if text in (b"", b"null"):
        text = b"{}"
    try:
        found = msgspec.json.decode(text, type=kind)
        if b"null" in text and (path := _null_at(found, msgspec.json.decode(text))):
            raise msgspec.ValidationError(f"must NOT be null - at `$.{path}`")
    except RecursionError:
        raise MethodRefusal(INVALID_REQUEST, invalid_params(method, "nested too deeply")) from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise MethodRefusal(INVALID_REQUEST, invalid_params(method, str(error))) from None
    return found


def to_error_shape(error: OpenClawError) -> ErrorShape:
    """An error as clients see it: few codes on the wire, many in the tree."""
    match error:
        case MethodRefusal():
            return error.error
        case ProviderError():
            wait = None if error.retry_after is None else max(0, round(error.retry_after * 1000))
            return ErrorShape(
                code=UNAVAILABLE, message=error.message, retryable=error.retryable or None, retry_after_ms=wait
            )
        case SessionBusy():
            return ErrorShape(code=UNAVAILABLE, message=error.message, retryable=True)
        case _:
            ours = isinstance(error, StateError) or error.code == "INTERNAL"
            return ErrorShape(code=UNAVAILABLE if ours else INVALID_REQUEST, message=error.message)


def refusal(error: ErrorShape) -> MethodRefusal:
    refused = MethodRefusal(error.code, error.message)
    refused.error = error
    return refused


def _response(request_id: str, answer: Any) -> Response:
    # Encoded here, so that a payload that cannot be encoded fails this request and not the connection.
    if isinstance(answer, MethodFailed):
        payload = UNSET if answer.payload is UNSET else Raw(encode(answer.payload))
        return failure(request_id, answer.error, payload)
    return Response(id=request_id, ok=True, payload=Raw(encode(answer)))


def _null_at(value: Any, given: Any) -> str | None:
    """The path where `given` has null for a field that may be absent but not null."""
    if isinstance(value, Struct) and isinstance(given, dict):
        fields = msgspec.structs.fields(type(value))
        for field in fields:
            if field.encode_name not in given:
                continue
            inner = given[field.encode_name]
            if inner is None and field.default is None:
                return field.encode_name
            if inside := _null_at(getattr(value, field.name), inner):
                return f"{field.encode_name}{inside}" if inside.startswith("[") else f"{field.encode_name}.{inside}"
    elif isinstance(value, tuple) and isinstance(given, list):
        for index, (one, inner) in enumerate(zip(value, given, strict=True)):
            if inside := _null_at(one, inner):
                return f"[{index}]{inside}" if inside.startswith("[") else f"[{index}].{inside}"
    return None
