"""The gateway as a system service: unit files for systemd and launchd, and the commands that manage them."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal
from xml.sax.saxutils import escape

from msgspec import Struct

from openclaw.core.errors import NotFound, StateError
from openclaw.process.environment import Home
from openclaw.storage.atomic import replace_file

Manager = Literal["systemd", "launchd", "background"]

STOP_SECONDS = 90
KEPT = ("OPENCLAW_STATE_DIR", "OPENCLAW_CONFIG_PATH", "OPENCLAW_HOME", "OPENCLAW_PROFILE", "OPENCLAW_INCLUDE_ROOTS")
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
_PLIST = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
"""


class ServiceDefinition(Struct, frozen=True, kw_only=True):
    """What a service file is written from."""

    arguments: tuple[str, ...]
    """The program and its arguments."""
    environ: Mapping[str, str]
    directory: str
    log: str
    label: str
    """Its name in launchd."""
    unit: str
    """Its name in systemd."""


def define(
    home: Home, environ: Mapping[str, str], *, python: str, port: int, version: str, home_dir: Path
) -> ServiceDefinition:
    """Defines the service of one home; credentials stay in the configuration and never in a service file."""
    variables = {name: environ[name] for name in KEPT if environ.get(name)}
    beside = str(Path(python).parent)
    path = PATH if beside in PATH.split(":") else f"{beside}:{PATH}"
    variables |= {"HOME": str(home_dir), "PATH": path, "OPENCLAW_SERVICE_VERSION": version}
    return ServiceDefinition(
        arguments=(python, "-m", "openclaw", "gateway", "run", "--port", str(port)),
        environ=variables,
        directory=str(home.state),
        log=str(home.state / "logs" / "gateway-boot.log"),
        label=f"ai.openclaw.{home.profile or 'gateway'}",
        unit=f"openclaw-gateway{f'-{home.profile}' if home.profile else ''}.service",
    )


def systemd_unit(what: ServiceDefinition) -> str:
    """A user unit; `READY=1` tells systemd when we are up."""
    lines = [
        "[Unit]",
        "Description=OpenClaw gateway",
        "After=network-online.target",
        "Wants=network-online.target",
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        "Type=notify",
        "ExecStart=" + " ".join(_systemd_word(word, command=True) for word in what.arguments),
        "ExecReload=/bin/kill -HUP $MAINPID",
        f"WorkingDirectory={what.directory.replace('%', '%%')}",
        *(f"Environment={_systemd_word(f'{name}={value}')}" for name, value in sorted(what.environ.items())),
        "Restart=always",
        "RestartSec=5",
        "KillMode=control-group",
        f"TimeoutStopSec={STOP_SECONDS}",
        "UMask=0077",
        "NoNewPrivileges=true",
        "",
        "[Install]",
        "WantedBy=default.target",
    ]
    return "\n".join(lines) + "\n"


def _systemd_word(word: str, *, command: bool = False) -> str:
    """Quotes one word for systemd: `%` doubled, and in a command `$` doubled."""
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("\n", "\\n")
    if command:
        text = text.replace("$", "$$")
    plain = bool(text) and not any(char in text for char in " \t'\"\\;")
    return text if plain else f'"{text}"'


def launchd_plist(what: ServiceDefinition) -> str:
    """A launch agent that is started at login and again when it ends."""
    log = f"<string>{escape(what.log)}</string>"
    arguments = "".join(f"    <string>{escape(word)}</string>\n" for word in what.arguments)
    variables = "".join(
        f"    <key>{escape(name)}</key>\n    <string>{escape(value)}</string>\n"
        for name, value in sorted(what.environ.items())
    )
    entries = {
        "Label": f"<string>{escape(what.label)}</string>",
        "ProgramArguments": f"<array>\n{arguments}  </array>",
        "EnvironmentVariables": f"<dict>\n{variables}  </dict>",
        "WorkingDirectory": f"<string>{escape(what.directory)}</string>",
        "RunAtLoad": "<true/>",
        "KeepAlive": "<true/>",
        "ThrottleInterval": "<integer>5</integer>",
        "ExitTimeOut": f"<integer>{STOP_SECONDS}</integer>",
        "Umask": "<integer>63</integer>",
        "StandardOutPath": log,
        "StandardErrorPath": log,
    }
    rows = "".join(f"  <key>{name}</key>\n  {value}\n" for name, value in entries.items())
    return f"{_PLIST}<dict>\n{rows}</dict>\n</plist>\n"


class ServiceState(Struct, frozen=True, kw_only=True):
    """The state of the service."""

    manager: Manager
    path: Path | None = None
    installed: bool = False
    active: bool = False
    drifted: bool = False
    """The installed file differs from what would be written now."""


class ServiceManager:
    """Installs and controls the service of one home through systemd or launchd."""

    def __init__(self, manager: Manager, what: ServiceDefinition, home_dir: Path, environ: Mapping[str, str]) -> None:
        self.manager: Manager = manager
        self._what = what
        self._environ = environ
        match manager:
            case "systemd":
                base = Path(environ.get("XDG_CONFIG_HOME") or home_dir / ".config")
                self.path: Path | None = base / "systemd" / "user" / what.unit
            case "launchd":
                self.path = home_dir / "Library" / "LaunchAgents" / f"{what.label}.plist"
            case "background":
                self.path = None

    @property
    def text(self) -> str:
        return systemd_unit(self._what) if self.manager == "systemd" else launchd_plist(self._what)

    def state(self) -> ServiceState:
        if self.path is None:
            return ServiceState(manager=self.manager)
        try:
            found: str | None = self.path.read_text()
        except FileNotFoundError:
            found = None
        except (OSError, ValueError) as error:
            raise StateError(f"cannot read {self.path}: {error}") from error
        return ServiceState(
            manager=self.manager,
            path=self.path,
            installed=found is not None,
            active=found is not None and self._is_active(),
            drifted=found is not None and found != self.text,
        )

    def install(self) -> None:
        """Writes the service file and starts the service, now and at every login."""
        path = self._file()
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, self.text.encode(), 0o644)
        if self.manager == "systemd":
            self._do("systemctl", "--user", "daemon-reload")
            self._do("systemctl", "--user", "enable", self._what.unit)
            self._do("systemctl", "--user", "restart", self._what.unit)
        else:
            self._try("launchctl", "bootout", f"{_domain()}/{self._what.label}")
            self._do("launchctl", "bootstrap", _domain(), str(path))

    def uninstall(self) -> None:
        """Stops the service and removes its file."""
        path = self._file()
        if not path.exists():
            raise NotFound(f"no service is installed ({path} does not exist)")
        if self.manager == "systemd":
            self._try("systemctl", "--user", "disable", "--now", self._what.unit)
        else:
            self._try("launchctl", "bootout", f"{_domain()}/{self._what.label}")
        path.unlink()
        if self.manager == "systemd":
            self._try("systemctl", "--user", "daemon-reload")

    def start(self) -> None:
        if self.manager == "systemd":
            self._do("systemctl", "--user", "start", self._what.unit)
        elif not self._is_active():
            self._do("launchctl", "bootstrap", _domain(), str(self._file()))

    def stop(self) -> None:
        if self.manager == "systemd":
            self._do("systemctl", "--user", "stop", self._what.unit)
        else:
            self._do("launchctl", "bootout", f"{_domain()}/{self._what.label}")

    def restart(self) -> None:
        if self.manager == "systemd":
            self._do("systemctl", "--user", "restart", self._what.unit)
        else:
            self._do("launchctl", "kickstart", "-k", f"{_domain()}/{self._what.label}")

    def _file(self) -> Path:
        if self.path is None:
            raise StateError(
                "this system has neither systemd for users nor launchd: use openclaw gateway start, or run openclaw"
                " gateway run under a supervisor of your own"
            )
        return self.path

    def _is_active(self) -> bool:
        if self.manager == "systemd":
            return self._try("systemctl", "--user", "is-active", "--quiet", self._what.unit)
        return self._try("launchctl", "print", f"{_domain()}/{self._what.label}")

    def _do(self, *command: str) -> None:
        done = _ran(command, self._environ)
        if done is None or done.returncode != 0:
            said = done.stderr.strip() if done else "the command is not there"
            raise StateError(f"{' '.join(command)} failed: {said or 'it did not say why'}")

    def _try(self, *command: str) -> bool:
        done = _ran(command, self._environ)
        return done is not None and done.returncode == 0


def pick(platform: str, environ: Mapping[str, str]) -> Manager:
    """The manager that can run a service of this user."""
    if platform == "darwin":
        return "launchd"
    # Without a user bus (containers, su) systemctl --user does not work.
    if platform == "linux" and environ.get("XDG_RUNTIME_DIR"):
        done = _ran(("systemctl", "--user", "show-environment"), environ)
        if done is not None and done.returncode == 0:
            return "systemd"
    return "background"


def _ran(command: Sequence[str], environ: Mapping[str, str]) -> "subprocess.CompletedProcess[str] | None":
    try:
        return subprocess.run(
            list(command), capture_output=True, text=True, env=dict(environ), timeout=STOP_SECONDS + 30, check=False
        )
    except (FileNotFoundError, PermissionError):
        return None
    except subprocess.TimeoutExpired as error:
        raise StateError(f"{' '.join(command)} does not come to an end") from error


def _domain() -> str:
    return f"gui/{os.getuid()}"
