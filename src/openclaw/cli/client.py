"""How a command reaches the assistant: as a client of the running gateway, or of one in this process.

One question to a running gateway needs neither asyncio nor the configuration. The rest is in `talk.message`.
"""

from collections.abc import Awaitable, Callable, Mapping
from operator import methodcaller
from typing import TYPE_CHECKING, Any, TypeVar

import click

from openclaw.cli.root import load
from openclaw.gateway.running import ClientTarget, RunningGateway, call_gateway, known_target, running_gateway
from openclaw.process.environment import Environment
from openclaw.protocol.connect_request import CALL_TIMEOUT
from openclaw.version import __version__

if TYPE_CHECKING:
    from openclaw.protocol.client import GatewayClient

T = TypeVar("T")
NOT_RUNNING = "the gateway is not running: start it with openclaw gateway start"


def is_alone(environment: Environment, local: bool) -> bool:
    """Whether a command does without the running gateway: it is to be `local`, or none runs."""
    return local or running_gateway(environment.home.state) is None


def call(method: str, params: Mapping[str, Any] | None = None, timeout: float | None = CALL_TIMEOUT) -> Any:
    """Calls one method of the gateway, running or in this process, and gives its answer."""
    environment = Environment.of_process()
    found = running_gateway(environment.home.state)
    if found is not None:
        return call_gateway(find_running(environment, found), method, params or {}, timeout=timeout)
    return with_client(methodcaller("call", method, params, timeout=timeout), local=True)


def call_running(
    method: str, params: Mapping[str, Any] | None = None, *, absent: str = NOT_RUNNING, timeout: float = 30.0
) -> Any:
    """Calls one method of the gateway that runs; `absent` is the error when none does."""
    environment = Environment.of_process()
    found = running_gateway(environment.home.state)
    if found is None:
        raise click.ClickException(absent)
    return call_gateway(find_running(environment, found), method, params or {}, timeout=timeout)


def ask_running(environment: Environment, method: str, params: Mapping[str, Any]) -> Any:
    """What the running gateway answers; None when none runs that is this program, and the command looks for itself."""
    found = running_gateway(environment.home.state)
    if found is None or not found.port or found.version != __version__:
        return None
    return call_gateway(find_running(environment, found), method, params, timeout=CALL_TIMEOUT)


def find_running(environment: Environment, found: RunningGateway) -> ClientTarget:
    """How to reach the gateway that runs; the configuration is read only when it has a say."""
    target = None if environment.environ.get("OPENCLAW_GATEWAY_URL") else known_target(found, environment.home.state)
    if target is not None:
        return target
    from openclaw.gateway.client_target import find_gateway

    return find_gateway(environment)


def with_client(
    work: "Callable[[GatewayClient], Awaitable[T]]", *, local: bool = False, caps: tuple[str, ...] = ()
) -> T:
    """Does `work` with a client of the gateway, running or in this process."""
    done: T = load("talk.message", "run_with_client")(work, local=local, caps=caps)
    return done


def call_in_parts(method: str, params: Mapping[str, Any], take: Callable[[dict[str, Any]], None]) -> None:
    """Calls a method that answers in parts, and hands each to `take` as it comes."""

    async def hear(client: "GatewayClient") -> None:
        parts = client.answers(method, params)
        try:
            async for part in parts:
                take(part)
                if part["last"]:
                    return
        finally:
            await parts.aclose()

    with_client(hear)


def given(**params: Any) -> dict[str, Any]:
    """The parameters that have a value."""
    return {name: value for name, value in params.items() if value is not None}
