"""The gateway as a service: the exact files, and what the system's manager is asked to do."""

import plistlib
import stat
from pathlib import Path

import pytest

from openclaw.core.errors import NotFound, StateError
from openclaw.gateway.service import ServiceDefinition, ServiceManager, define, launchd_plist, pick, systemd_unit
from openclaw.process.environment import Home

UNIT = """\
[Unit]
Description=OpenClaw gateway
After=network-online.target
Wants=network-online.target
StartLimitIntervalSec=0

[Service]
Type=notify
ExecStart=/opt/py/bin/python3 -m openclaw gateway run --port 18789
ExecReload=/bin/kill -HUP $MAINPID
WorkingDirectory=/home/me/.openclaw
Environment=HOME=/home/me
Environment=OPENCLAW_SERVICE_VERSION=1.2.3
Environment="OPENCLAW_STATE_DIR=/home/me/my state 100%%"
Environment=PATH=/opt/py/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin
Restart=always
RestartSec=5
KillMode=control-group
TimeoutStopSec=90
UMask=0077
NoNewPrivileges=true

[Install]
WantedBy=default.target
"""

PLIST = """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key>
  <string>ai.openclaw.gateway</string>
  <key>ProgramArguments</key>
  <array>
    <string>/opt/py/bin/python3</string>
    <string>-m</string>
    <string>openclaw</string>
    <string>gateway</string>
    <string>run</string>
    <string>--port</string>
    <string>18789</string>
  </array>
  <key>EnvironmentVariables</key>
  <dict>
    <key>HOME</key>
    <string>/home/me</string>
    <key>OPENCLAW_SERVICE_VERSION</key>
    <string>1.2.3</string>
    <key>OPENCLAW_STATE_DIR</key>
    <string>/home/me/my state 100%</string>
    <key>PATH</key>
    <string>/opt/py/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin</string>
  </dict>
  <key>WorkingDirectory</key>
  <string>/home/me/.openclaw</string>
  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <true/>
  <key>ThrottleInterval</key>
  <integer>5</integer>
  <key>ExitTimeOut</key>
  <integer>90</integer>
  <key>Umask</key>
  <integer>63</integer>
  <key>StandardOutPath</key>
  <string>/home/me/.openclaw/logs/gateway-boot.log</string>
  <key>StandardErrorPath</key>
  <string>/home/me/.openclaw/logs/gateway-boot.log</string>
</dict>
</plist>
"""


def definition(profile: str | None = None, **environ: str) -> ServiceDefinition:
    state = Path("/home/me/.openclaw")
    return define(
        Home(state=state, config=state / "openclaw.json", profile=profile),
        {"OPENCLAW_STATE_DIR": "/home/me/my state 100%", "OPENCLAW_GATEWAY_TOKEN": "plum", **environ},
        python="/opt/py/bin/python3",
        port=18_789,
        version="1.2.3",
        home_dir=Path("/home/me"),
    )


def test_the_systemd_unit_is_exactly_this() -> None:
    assert systemd_unit(definition()) == UNIT


def test_the_launch_agent_is_exactly_this() -> None:
    text = launchd_plist(definition())
    assert text == PLIST
    assert plistlib.loads(text.encode())["ProgramArguments"][-1] == "18789"


def test_odd_paths_are_quoted_for_each_reader() -> None:
    odd = define(
        Home(state=Path("/s"), config=Path("/s/c")),
        {"OPENCLAW_HOME": '/a "b" <c> & $d'},
        python="/my py/$x/python",
        port=1,
        version="1",
        home_dir=Path("/h"),
    )
    unit = systemd_unit(odd)
    assert 'ExecStart="/my py/$$x/python" -m openclaw' in unit
    assert 'Environment="OPENCLAW_HOME=/a \\"b\\" <c> & $d"' in unit
    assert plistlib.loads(launchd_plist(odd).encode())["EnvironmentVariables"]["OPENCLAW_HOME"] == '/a "b" <c> & $d'


def test_a_credential_never_gets_into_a_service_file() -> None:
    assert "plum" not in systemd_unit(definition()) + launchd_plist(definition())


def test_profiles_have_services_of_their_own() -> None:
    work = definition("work")
    assert (work.unit, work.label) == ("openclaw-gateway-work.service", "ai.openclaw.work")


@pytest.fixture
def manager(tmp_path: Path) -> dict[str, str]:
    """A systemctl that writes down what it is asked, and fails when a file says so."""
    program = tmp_path / "bin" / "systemctl"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n[ ! -e {tmp_path}/fail ] || {{ echo no bus >&2; exit 1; }}\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return {"PATH": f"{program.parent}:/usr/bin:/bin", "XDG_RUNTIME_DIR": str(tmp_path)}


def test_a_service_is_installed_looked_at_and_removed(tmp_path: Path, manager: dict[str, str]) -> None:
    assert pick("linux", manager) == "systemd"
    services = ServiceManager("systemd", definition(), tmp_path, manager)
    assert not services.state().installed
    services.install()
    assert services.path == tmp_path / ".config/systemd/user/openclaw-gateway.service"
    assert services.path.read_text() == UNIT
    state = services.state()
    assert (state.installed, state.active, state.drifted) == (True, True, False)
    services.path.write_text(UNIT.replace("18789", "1"))
    assert services.state().drifted
    services.restart()
    services.stop()
    services.start()
    services.uninstall()
    assert not services.path.exists()
    asked = (tmp_path / "asked").read_text().replace("--user ", "").splitlines()
    unit = "openclaw-gateway.service"
    for command in ("daemon-reload", f"enable {unit}", f"restart {unit}", f"stop {unit}", f"disable --now {unit}"):
        assert command in asked
    with pytest.raises(NotFound, match="no service is installed"):
        services.uninstall()


def test_what_the_manager_says_is_passed_on(tmp_path: Path, manager: dict[str, str]) -> None:
    (tmp_path / "fail").touch()
    with pytest.raises(StateError, match="no bus"):
        ServiceManager("systemd", definition(), tmp_path, manager).install()


@pytest.mark.parametrize("platform", ["freebsd14", "win32", "sunos5", "linux"])
def test_a_platform_without_a_manager_of_ours_has_a_plain_background_process(platform: str) -> None:
    assert pick(platform, {"PATH": ""}) == "background"


def test_without_a_manager_it_says_what_to_do_instead(tmp_path: Path, manager: dict[str, str]) -> None:
    (tmp_path / "fail").touch()
    assert pick("linux", manager) == "background"
    assert pick("linux", {"PATH": str(tmp_path)}) == "background"
    assert pick("darwin", {}) == "launchd"
    with pytest.raises(StateError, match="openclaw gateway start"):
        ServiceManager("background", definition(), tmp_path, manager).install()
