"""Starts the gateway for a command that needs one, and says where it is."""

from openclaw.cli.render import waiting_for
from openclaw.core.errors import StateError
from openclaw.gateway import process
from openclaw.gateway.running import RunningGateway, reachable, running_gateway
from openclaw.gateway.status import service_manager, wait_ready
from openclaw.process.environment import Environment


def gateway_up(environment: Environment) -> RunningGateway:
    """The running gateway; the installed service is started, or a process in the background."""
    state = environment.home.state
    found = running_gateway(state)
    with waiting_for("the gateway starts") as waiting:
        if found is not None:
            return found if found.port else wait_ready(environment, waiting=waiting)
        services = service_manager(environment)
        if services.state().installed:
            services.start()
            return wait_ready(environment, waiting=waiting)
        return process.start([], environment.environ, state, waiting=waiting)


def web_address(found: RunningGateway) -> str:
    """Where a browser on this machine finds the gateway."""
    if not found.port:
        raise StateError("the gateway has not said yet where it listens: try again in a moment")
    scheme = "https" if found.fingerprint else "http"
    return f"{scheme}://{reachable(found.address)}:{found.port}"
