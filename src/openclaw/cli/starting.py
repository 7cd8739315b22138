"""The gateway of this home, started when it does not run, and where its web page is."""

from openclaw.core.errors import StateError
from openclaw.gateway import process
from openclaw.gateway.lock import RunningGateway, running
from openclaw.gateway.standing import services_of, wait_ready
from openclaw.gateway.surroundings import Environment


def gateway_up(surroundings: Environment) -> RunningGateway:
    """The running gateway; the installed service is started, or a process in the background."""
    state = surroundings.home.state
    found = running(state)
    if found is not None and found.port:
        return found
    if found is not None:
        return wait_ready(surroundings)
    services = services_of(surroundings)
    if services.state().installed:
        services.start()
        return wait_ready(surroundings)
    return process.start([], surroundings.environ, state)


def web_address(found: RunningGateway) -> str:
    """Where a browser on this machine finds the gateway."""
    if not found.port:
        raise StateError("the gateway has not said yet where it listens: try again in a moment")
    scheme = "https" if found.fingerprint else "http"
    return f"{scheme}://{process.reachable(found.address)}:{found.port}"
