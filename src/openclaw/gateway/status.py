"""The status of a home's gateway: service, process, port and protocol."""

import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from openclaw.config.load import load, problems_of
from openclaw.core.errors import ConfigError, OpenClawError, StateError
from openclaw.gateway import exposure as gateway_exposure
from openclaw.gateway import process, service
from openclaw.gateway.client_target import exposure_of, find_gateway
from openclaw.gateway.exposure import Exposure
from openclaw.gateway.logs import LogFiles, newest
from openclaw.gateway.process import Waiting, no_waiting
from openclaw.gateway.running import POLL_SECONDS, RunningGateway, call_gateway, running_gateway
from openclaw.gateway.state import CrashHistory, judge
from openclaw.process.environment import Environment
from openclaw.version import __version__

DEFAULT_PORT = 18_789
READY_SECONDS = 60.0


def service_manager(environment: Environment, port: int | None = None) -> service.ServiceManager:
    """The service of this home, as it would be written now."""
    if port is None:
        try:
            port = exposure_of(environment).port
        except ConfigError:
            port = DEFAULT_PORT
    what = service.define(
        environment.home,
        environment.environ,
        python=sys.executable,
        port=port,
        version=__version__,
        home_dir=environment.home_dir,
    )
    manager = service.pick(sys.platform, environment.environ)
    return service.ServiceManager(manager, what, environment.home_dir, environment.environ)


def wait_ready(
    environment: Environment, *, not_pid: int = 0, seconds: float = READY_SECONDS, waiting: Waiting = no_waiting
) -> RunningGateway:
    """Waits until the gateway is ready; another process than `not_pid`."""
    began = time.monotonic()
    while time.monotonic() < began + seconds:
        waiting(time.monotonic() - began)
        found = running_gateway(environment.home.state)
        if found and found.pid != not_pid and found.port and process.ask_health(found).ready:
            return found
        time.sleep(POLL_SECONDS)
    raise StateError(f"the gateway is not ready after {seconds:.0f} s; see openclaw logs")


class GatewayStatus(Struct, frozen=True, kw_only=True):
    """What `gateway status` shows."""

    config: Path
    problems: tuple[str, ...]
    exposure: Exposure | None
    service: service.ServiceState
    running: RunningGateway | None
    health: process.GatewayHealth | None
    rpc_problem: str
    """Why the protocol is not answered; empty when it is."""
    stranger: int | None
    """A process that has our port and is not our gateway; 0 when it is not known which."""
    crashes: int
    log: Path | None

    @property
    def ready(self) -> bool:
        return self.health is not None and self.health.ready

    def document(self) -> dict[str, Any]:
        """The JSON form."""
        told, health = self.exposure, self.health
        return {
            "cli": {"version": __version__},
            "logFile": str(self.log) if self.log else None,
            "service": {
                "manager": self.service.manager,
                "path": str(self.service.path) if self.service.path else None,
                "installed": self.service.installed,
                "active": self.service.active,
                "drifted": self.service.drifted,
            },
            "config": {"path": str(self.config), "valid": not self.problems, "issues": list(self.problems)},
            "gateway": {
                "running": self.running is not None,
                "pid": self.running.pid if self.running else None,
                "version": self.running.version if self.running else None,
                "startedAt": self.running.created_at if self.running else None,
                "bind": told.bind if told else None,
                "authMode": told.mode if told else None,
                "recentCrashes": self.crashes,
            },
            "port": {
                "port": self._port,
                "tlsFingerprint": self.running.fingerprint if self.running else "",
                "listening": health is not None and health.answers,
                "ready": self.ready,
                "failing": list(health.failing) if health else [],
                "heldBy": self.stranger,
            },
            "rpc": {"ok": not self.rpc_problem, "error": self.rpc_problem or None},
            "extraServices": [],
        }

    @property
    def _port(self) -> int | None:
        if self.running and self.running.port:
            return self.running.port
        return self.exposure.port if self.exposure else None

    def lines(self) -> list[tuple[str, str]]:
        """The readable form."""
        rows = [("gateway", self._gateway()), ("port", self._listening()), ("service", self._service())]
        if self.running is not None:
            if self.running.fingerprint:
                rows.append(("tls", f"SHA-256 {self.running.fingerprint}"))
            rows.append(("protocol", "answers" if not self.rpc_problem else f"does not answer: {self.rpc_problem}"))
        if self.crashes:
            rows.append(("crashes", f"{self.crashes} within the last five minutes"))
        rows.append(("config", str(self.config)))
        rows += [("", f"! {problem}") for problem in self.problems]
        rows.append(("log", str(self.log) if self.log else "nothing written yet"))
        return rows

    def _gateway(self) -> str:
        if self.running is None:
            return "not running: start it with openclaw gateway start"
        since = datetime.fromtimestamp(self.running.created_at / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")
        other = f", version {self.running.version}" if self.running.version != __version__ else ""
        state = (
            "ready" if self.ready else f"not ready ({', '.join(self.health.failing) if self.health else 'starting'})"
        )
        return f"running, {state} (pid {self.running.pid}, since {since}{other})"

    def _listening(self) -> str:
        if self._port is None:
            return "unknown, because the configuration cannot be used"
        if self.stranger is not None:
            return f"{self._port} is taken by {f'process {self.stranger}' if self.stranger else 'another program'}"
        told = f"{self._port}, {self.exposure.bind}, auth {self.exposure.mode}" if self.exposure else str(self._port)
        told += ", encrypted" if self.running and self.running.fingerprint else ""
        return told if self.running is None or not self.health or self.health.answers else f"{told}, does not answer"

    def _service(self) -> str:
        if self.service.path is None:
            return "no service manager here; openclaw gateway start runs it in the background"
        if not self.service.installed:
            return f"not installed ({self.service.manager}): openclaw gateway install"
        state = "active" if self.service.active else "installed, not active"
        return f"{state} ({self.service.path})" + ("; out of date: openclaw gateway install" * self.service.drifted)


def read_status(environment: Environment, services: service.ServiceManager, timeout: float) -> GatewayStatus:
    """Collects the status once."""
    home = environment.home
    problems: tuple[str, ...] = ()
    exposure: Exposure | None = None
    place = LogFiles.of(home.state)
    try:
        loaded = load(home, environment.environ)
        problems = tuple(map(str, loaded.issues))
        place = LogFiles.of(home.state, loaded.config.logging.file)
        exposure = exposure_of(environment, loaded)
    except ConfigError as error:
        problems = tuple(map(str, problems_of(error)))
    found = running_gateway(home.state)
    health = process.ask_health(found, timeout) if found and found.port else None
    rpc_problem = "not ready"
    if health and health.ready:
        try:
            call_gateway(find_gateway(environment), "health", {}, timeout=timeout)
            rpc_problem = ""
        except OpenClawError as error:
            rpc_problem = error.message
    stranger: int | None = None
    if found is None and exposure and not gateway_exposure.is_port_free(exposure.hosts, exposure.port):
        stranger = gateway_exposure.port_owner(exposure.port) or 0
    return GatewayStatus(
        config=home.config,
        problems=problems,
        exposure=exposure,
        service=services.state(),
        running=found,
        health=health,
        rpc_problem=rpc_problem,
        stranger=stranger,
        crashes=judge(CrashHistory(home.state).read(), round(time.time() * 1000)).crashes if found is None else 0,
        log=newest(place),
    )
