"""The long-lived process: one lock, one log, one port, and the cycle of start, reload, drain and end.

What is served comes from a `Compose`: the daemon only knows when it starts, how it reloads, and how it drains.
"""

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, structs

from openclaw.config.edit import record_found
from openclaw.config.load import LoadedConfig, save_last_good
from openclaw.config.settings import ConnectionLimitSettings, GatewaySettings
from openclaw.core.errors import OpenClawError, StateError
from openclaw.gateway import exposure as gateway_exposure
from openclaw.gateway import running
from openclaw.gateway.exposure import Exposure, ExposureOptions
from openclaw.gateway.http.admission import ConnectionLimits, fit_descriptors
from openclaw.gateway.launch import Compose, Control, GatewayLaunch, GatewayParts, hide_environment, log_progress
from openclaw.gateway.logs import DailyFile, LogFiles, Logs
from openclaw.gateway.reload import Reload, Reloader
from openclaw.gateway.running import RESTART_SECONDS, STOP_SECONDS, WAIT_SECONDS, GatewayLock, hold_gateway_lock
from openclaw.gateway.server import Server, ServerLimits, serving
from openclaw.gateway.state import CrashHistory, SafeModeVerdict
from openclaw.process.environment import Environment
from openclaw.process.tasks import SystemClock
from openclaw.security.redaction import Redactor, secret_variables, secrets_in
from openclaw.version import __version__

if sys.platform != "win32":
    import resource

if TYPE_CHECKING:
    from openclaw.gateway.http.certificates import LoadedCertificate


log = logging.getLogger("openclaw.gateway")


@contextlib.contextmanager
def signals(control: Control) -> Iterator[None]:
    """Handles signals: TERM and INT stop, USR1 restarts, HUP reads the configuration."""
    loop = asyncio.get_running_loop()
    orders = {signal.SIGINT: control.stop, signal.SIGTERM: control.stop}
    if sys.platform != "win32":
        orders |= {signal.SIGUSR1: control.restart, signal.SIGHUP: control.reload}
    before = {}
    for number, order in orders.items():
        try:
            before[number] = signal.getsignal(number)
            loop.add_signal_handler(number, order, number.name)
        except NotImplementedError:
            signal.signal(
                number,
                lambda got, _, order=order: loop.call_soon_threadsafe(order, signal.Signals(got).name),  # type: ignore[misc]
            )
    try:
        yield
    finally:
        for number, handler in before.items():
            with contextlib.suppress(NotImplementedError):
                loop.remove_signal_handler(number)
            signal.signal(number, handler)


def notify(environ: Mapping[str, str], state: str) -> bool:
    """Sends `state` (`READY=1`, `STOPPING=1`, …) to `NOTIFY_SOCKET`; whether there is one."""
    address = environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")) or not hasattr(socket, "AF_UNIX"):
        return False
    if address.startswith("@"):
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.sendto(state.encode(), address)
        return True
    return False


RESTART_PAUSE = 30.0
"""Restarts that the configuration asks for are at least this far apart."""


# The process.


class DaemonOptions(Struct, frozen=True, kw_only=True):
    """The options of `gateway run`."""

    wishes: ExposureOptions = ExposureOptions()
    force: bool = False
    verbose: bool = False
    console: bool = True
    safe_mode: Literal["auto", "on", "off"] = "auto"
    lock_seconds: float = WAIT_SECONDS
    stop_seconds: float = STOP_SECONDS
    restart_seconds: float = RESTART_SECONDS


def run(options: DaemonOptions, environment: Environment, compose: Compose) -> None:
    """Runs a gateway until it is told to stop."""
    state = environment.home.state
    make_state_dir(state)
    if options.force:
        running.stop(state, options.stop_seconds)
    hide_environment()
    with hold_gateway_lock(state, __version__, options.lock_seconds) as lock:
        asyncio.run(_lives(options, environment, compose, lock))


def make_state_dir(state: Path) -> None:
    """Creates the state directory for its owner only; refuses one that others can write to."""
    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StateError(f"cannot make {state}: {error.strerror}") from error
    if sys.platform != "win32" and state.stat().st_mode & 0o002:
        raise StateError(f"{state} can be written by everyone on this machine: chmod 700 {state}")


async def _lives(options: DaemonOptions, environment: Environment, compose: Compose, lock: GatewayLock) -> None:
    reloader = Reloader(environment.home, environment.environ)
    logs = Logs(DailyFile(LogFiles.of(environment.home.state)), Redactor())
    control = Control()
    with logs.writing(), signals(control):
        while True:
            control.begin()
            _set_up(logs, reloader.loaded, options, environment.home.state)
            try:
                await _Life(options, environment, reloader, lock, logs, control).live(compose)
            except OpenClawError as error:
                log.error("%s", error.message)
                raise
            except BaseException:
                # Through our log and not through Python's: a traceback may contain a credential.
                log.critical("the gateway failed", exc_info=True)
                raise SystemExit(1) from None
            if control.wish != "restart":
                log.info("stopped")
                return
            reloader = Reloader(environment.home, environment.environ)


def _set_up(logs: Logs, loaded: LoadedConfig, options: DaemonOptions, state: Path) -> None:
    """Configures the log, with a redactor that knows every configured credential."""
    settings = loaded.config.logging
    logs.file.move(LogFiles.of(state, settings.file))
    logs.redactor.know((*secrets_in(loaded.config), *secret_variables(loaded.variables)))
    logs.redactor.know(secret for secret in (options.wishes.token, options.wishes.password) if secret)
    level = "debug" if options.verbose else settings.level
    logs.configure(
        level=level,
        console_level=level if options.verbose else settings.console_level,
        style=settings.console_style,
        console=sys.stderr if options.console else None,
    )


class _Life:
    """One cycle from listening to shutdown."""

    def __init__(
        self,
        options: DaemonOptions,
        environment: Environment,
        reloader: Reloader,
        lock: GatewayLock,
        logs: Logs,
        control: Control,
    ) -> None:
        self._options = options
        self._environment = environment
        self._reloader = reloader
        self._loaded = reloader.loaded
        self._lock = lock
        self._logs = logs
        self._control = control
        self._born = time.monotonic()

    async def live(self, compose: Compose) -> None:
        home, environ = self._environment.home, self._environment.environ
        settings = self._loaded.config.gateway
        exposure = gateway_exposure.decide(settings, self._loaded.variables, self._options.wishes)
        secret = gateway_exposure.shared_secret(exposure, home.state)
        self._logs.redactor.know([secret] if secret else [])
        shown = _certificate(settings, home.state, exposure)
        starts = CrashHistory(home.state)
        sockets = gateway_exposure.listen(exposure.hosts, exposure.port)
        encryption = shown.context if shown else None
        limits = ServerLimits(connections=_connection_limits(settings.limits))
        async with serving(sockets, _host_rules(settings, exposure), limits=limits, encryption=encryption) as server:
            fingerprint = server.fingerprint = shown.fingerprint if shown else ""
            # The last host is loopback: local clients have more rights than those over the network.
            self._lock.describe(
                port=server.port, address=exposure.hosts[-1], fingerprint=fingerprint, credential=exposure.credential
            )
            verdict = starts.begin()
            launch = GatewayLaunch(
                environment=self._environment,
                wishes=self._options.wishes,
                loaded=self._loaded,
                exposure=exposure,
                secret=secret,
                server=server,
                control=self._control,
                clock=SystemClock(),
                report=log_progress,
                expect=self._lock.expect,
                safe=self._options.safe_mode == "on" or (verdict.safe and self._options.safe_mode == "auto"),
            )
            self._greet(exposure, server, verdict, launch.safe)
            async with compose(launch) as parts:
                server.front.offer(parts)
                notify(environ, "READY=1")
                log.info("ready in %.0f ms", (time.monotonic() - self._born) * 1000)
                await self._remember(self._loaded)
                gc.freeze()  # objects that live as long as the process need no garbage collection
                # Young garbage is all there is from now on: it is looked for before it takes a megabyte.
                gc.set_threshold(3_000, 20, 20)
                await self._until_over(parts, server)
                server.front.withdraw("draining")
                notify(environ, "STOPPING=1" if self._control.wish == "stop" else "RELOADING=1")
                await self._drain(parts.drain)
        await asyncio.to_thread(starts.finish)

    def _greet(self, exposure: Exposure, server: Server, verdict: SafeModeVerdict, safe: bool) -> None:
        log.info("gateway %s listens on %s (auth: %s)", __version__, server.url, exposure.mode)
        for problem in (*self._loaded.issues, *self._loaded.warnings):
            log.warning("%s", problem)
        if self._loaded.used_last_good:
            log.warning("%s cannot be used: running with the last one that worked", self._loaded.path)
        if exposure.mode == "none":
            log.warning("no credential is asked of clients: every program of this machine has full access")
        if verdict.after_crash:
            log.warning("the last run ended without a goodbye (%d within five minutes)", verdict.crashes)
        if safe:
            log.error(
                "safe mode: channels, plugins and cron stay off. See openclaw logs for the cause; openclaw gateway"
                " restart starts everything again"
            )

    async def _until_over(self, parts: GatewayParts, server: Server) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._on_demand(parts, server), name="reload")]
            if self._loaded.config.gateway.reload.mode != "off":
                tasks.append(group.create_task(self._watch(parts, server), name="watch"))
            await self._control.over.wait()
            for task in tasks:
                task.cancel()

    async def _watch(self, parts: GatewayParts, server: Server) -> None:
        settle = self._loaded.config.gateway.reload.debounce_ms / 1000
        async with aclosing(self._reloader.watch(settle)) as changes:
            async for reload in changes:
                await self._apply(reload, parts, server)

    async def _on_demand(self, parts: GatewayParts, server: Server) -> None:
        while True:
            await self._control.reread.wait()
            self._control.reread.clear()
            reload = await self._reloader.check()
            if reload is not None:
                await self._apply(reload, parts, server)

    async def _apply(self, reload: Reload, parts: GatewayParts, server: Server) -> None:
        settings = reload.loaded.config.gateway
        names = ", ".join(reload.changed)
        mode = settings.reload.mode
        await self._record(reload)
        if reload.kind == "none":
            log.debug("config changed, nothing to do: %s", names)
        elif mode == "restart" or (reload.kind == "restart" and mode != "hot"):
            # Changes that arrive meanwhile are part of the same restart.
            await asyncio.sleep(max(0.0, self._control.restarted + RESTART_PAUSE - time.monotonic()))
            self._control.restart(f"config changed: {names}")
            return
        elif reload.kind == "restart":
            log.warning("config changed; restart the gateway to apply: %s", names)
        else:
            _set_up(self._logs, reload.loaded, self._options, self._environment.home.state)
            try:
                exposure = gateway_exposure.decide(settings, reload.loaded.variables, self._options.wishes)
                server.front.apply(_host_rules(settings, exposure))
                await parts.reload(reload)
            except OpenClawError as error:
                log.error("config change not applied (%s): %s", names, error.message)
                self._reloader.revert(self._loaded)
                return
            log.info("config change applied: %s", names)
        self._loaded = reload.loaded
        await self._remember(reload.loaded)

    async def _remember(self, loaded: LoadedConfig) -> None:
        """Saves a configuration that works as the last good one; a full disk is logged, not fatal."""
        try:
            await asyncio.to_thread(save_last_good, self._environment.home, loaded)
        except OpenClawError as error:
            log.warning("the configuration could not be kept as the last good one: %s", error.message)

    async def _record(self, reload: Reload) -> None:
        """Puts a change that was made in the file itself on record."""
        try:
            await asyncio.to_thread(record_found, self._environment.home, reload.changed, reload.loaded.text)
        except OpenClawError as error:
            log.warning("a change of the configuration could not be recorded: %s", error.message)

    async def _drain(self, drain: Callable[[float], Awaitable[None]]) -> None:
        """Waits for work to end; cancels what is left after the time limit or a second stop."""
        restart = self._control.wish == "restart"
        seconds = self._options.restart_seconds if restart else self._options.stop_seconds
        work = asyncio.ensure_future(drain(seconds))
        impatience = asyncio.create_task(self._control.hurry.wait())
        either: set[asyncio.Future[Any]] = {work, impatience}
        done, _ = await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        impatience.cancel()
        if work not in done:
            log.warning("not everything came to rest in time; the rest is stopped and resumed at the next start")
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
        elif error := work.exception():
            log.error("a part failed while it came to rest", exc_info=error)


def _certificate(settings: GatewaySettings, state: Path, exposure: Exposure) -> "LoadedCertificate | None":
    if not settings.tls.enabled:
        return None
    from openclaw.gateway.http.certificates import SOON, load_certificate

    name, now = socket.gethostname(), datetime.now(UTC)
    listed = (host for host in exposure.hosts if host != gateway_exposure.EVERYWHERE)
    names = tuple(dict.fromkeys(("localhost", gateway_exposure.LOOPBACK, name, f"{name}.local", *listed)))
    shown = load_certificate(settings.tls, state, names, now)
    if shown and shown.expires - now < SOON:
        log.warning("the certificate of the gateway expires on %s: renew it", f"{shown.expires:%Y-%m-%d}")
    return shown


def _host_rules(settings: GatewaySettings, exposure: Exposure) -> gateway_exposure.HostRules:
    name = socket.gethostname()
    own_names = (name, f"{name}.local") if settings.bind in ("lan", "custom") else ()
    return gateway_exposure.host_rules(settings, own_names, exposure.proxy)


MOST_DESCRIPTORS = 8_192


def _connection_limits(settings: ConnectionLimitSettings) -> ConnectionLimits:
    """The configured limits, as far as the system allows the process that many open files."""
    limits = ConnectionLimits(
        connections=settings.connections,
        per_address=settings.per_address,
        pending=settings.pending,
        header_seconds=settings.header_seconds,
        body_seconds=settings.body_seconds,
    )
    if sys.platform == "win32":
        return limits
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        # 1024 is what programs with select() need by default; ours has none.
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    fitting = fit_descriptors(limits, MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft)
    return structs.replace(limits, connections=fitting, pending=min(limits.pending, fitting // 2))
