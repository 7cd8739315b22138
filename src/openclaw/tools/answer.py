"""The edge of every tool: arguments become a frozen value, expected failures become an answer to the model."""

from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import msgspec

from openclaw.core.errors import InvalidRequest, OpenClawError
from openclaw.core.tool import Output

P = ParamSpec("P")
T = TypeVar("T")


def parse_args(args: Mapping[str, Any], wanted: type[T]) -> T:
    """`args` as the frozen type `wanted`."""
    try:
        return msgspec.convert(dict(args), wanted, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"Invalid arguments: {error}") from error


def answers(call: Callable[P, Coroutine[Any, Any, Output]]) -> Callable[P, Coroutine[Any, Any, Output]]:
    """Turns the failures a tool expects into what the model reads; anything else is a bug and rises."""

    @wraps(call)
    async def answered(*args: P.args, **kwargs: P.kwargs) -> Output:
        try:
            return await call(*args, **kwargs)
        except OpenClawError as error:
            return Output.failed(error.message)

    return answered
