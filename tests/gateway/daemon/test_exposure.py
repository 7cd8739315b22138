"""Where the gateway listens, what it asks for, and who is kept out."""

import os
import socket
from pathlib import Path

import msgspec
import pytest

from openclaw.config.settings import (
    ControlUiSettings,
    DeviceAutoApproveSettings,
    GatewayAuthSettings,
    GatewaySettings,
    TrustedProxySettings,
)
from openclaw.core.errors import ConfigError, StateError
from openclaw.core.secret import Secret
from openclaw.gateway import exposure
from openclaw.gateway.daemon import make_state_dir
from openclaw.gateway.exposure import (
    ExposureOptions,
    decide,
    host_allowed,
    host_rules,
    shared_secret,
)
from openclaw.gateway.running import own_token, token_path
from tests.gateway.daemon.support import mode_of

LONG = Secret("a-token-that-is-long-enough")


def test_by_default_only_this_machine_gets_in_and_only_with_a_token() -> None:
    found = decide(GatewaySettings(), {}, ExposureOptions())
    assert (found.port, found.hosts, found.mode, found.secret) == (18_789, ("127.0.0.1",), "token", None)
    assert found.local


def test_the_command_line_stands_above_the_environment_and_that_above_the_file() -> None:
    settings = GatewaySettings(port=1_000, auth=GatewayAuthSettings(token=Secret("from the file")))
    environ = {"OPENCLAW_GATEWAY_PORT": "2000", "OPENCLAW_GATEWAY_TOKEN": "from the environment"}
    assert decide(settings, {}, ExposureOptions()).port == 1_000
    from_environment = decide(settings, environ, ExposureOptions())
    assert (from_environment.port, from_environment.secret) == (2_000, Secret("from the environment"))
    asked = decide(settings, environ, ExposureOptions(port=3_000, token=Secret("asked for")))
    assert (asked.port, asked.secret) == (3_000, Secret("asked for"))


@pytest.mark.parametrize(
    ("settings", "mode"),
    [
        (GatewayAuthSettings(), "token"),
        (GatewayAuthSettings(password=LONG), "password"),
        (GatewayAuthSettings(token=LONG, password=LONG), "token"),
        (GatewayAuthSettings(mode="password", token=LONG, password=LONG), "password"),
        (GatewayAuthSettings(mode="none", token=LONG), "none"),
    ],
)
def test_what_is_set_decides_what_is_asked(settings: GatewayAuthSettings, mode: str) -> None:
    assert decide(GatewaySettings(auth=settings), {}, ExposureOptions()).mode == mode


@pytest.mark.parametrize(
    ("settings", "wishes", "says"),
    [
        (GatewaySettings(bind="lan"), ExposureOptions(auth="none"), "without asking anyone for a credential"),
        (GatewaySettings(bind="lan"), ExposureOptions(token=Secret("short")), "too short"),
        (GatewaySettings(bind="custom"), ExposureOptions(), "gateway.customBindHost"),
        (GatewaySettings(bind="custom", custom_bind_host="my.host"), ExposureOptions(), "gateway.customBindHost"),
        (GatewaySettings(), ExposureOptions(auth="password"), "there is none"),
        (GatewaySettings(), ExposureOptions(bind="tailnet"), "use loopback, lan, auto, custom"),
        (GatewaySettings(), ExposureOptions(auth="magic"), "use token, password, none"),
    ],
)
def test_it_refuses_and_says_what_to_do(settings: GatewaySettings, wishes: ExposureOptions, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        decide(settings, {}, wishes)


def test_a_bad_port_in_the_environment_is_named() -> None:
    with pytest.raises(ConfigError, match="OPENCLAW_GATEWAY_PORT"):
        decide(GatewaySettings(), {"OPENCLAW_GATEWAY_PORT": "many"}, ExposureOptions())


def test_beyond_this_machine_a_long_token_is_enough() -> None:
    assert decide(GatewaySettings(bind="lan"), {}, ExposureOptions(token=LONG)).hosts == ("0.0.0.0",)
    custom = decide(GatewaySettings(bind="custom", custom_bind_host="192.0.2.7"), {}, ExposureOptions())
    assert custom.hosts == ("192.0.2.7", "127.0.0.1")


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("127.0.0.1:18789", True),
        ("[::1]:18789", True),
        ("localhost", True),
        ("LOCALHOST:18789", True),
        ("box.localhost", True),
        ("192.168.1.7:18789", True),
        ("chat.example.org", True),
        ("mybox.local:18789", True),
        ("evil.example", False),
        ("evil.example:18789", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("user@127.0.0.1", False),
        ("", False),
        ("[::1", False),
    ],
)
def test_a_name_that_was_pointed_at_us_is_not_served(host: str, allowed: bool) -> None:
    settings = GatewaySettings(control_ui=ControlUiSettings(allowed_origins=("https://chat.example.org",)))
    assert host_allowed(host, host_rules(settings, ("MyBox.local",))) is allowed


def test_the_own_token_is_made_once_and_private(tmp_path: Path) -> None:
    exposure = decide(GatewaySettings(), {}, ExposureOptions())
    assert own_token(tmp_path) is None
    made = shared_secret(exposure, tmp_path)
    assert made is not None and len(made.reveal()) == 64
    assert shared_secret(exposure, tmp_path) == made == own_token(tmp_path)
    assert mode_of(token_path(tmp_path)) == 0o600
    assert [path.name for path in token_path(tmp_path).parent.iterdir()] == ["gateway.token"]


def test_a_damaged_token_is_told(tmp_path: Path) -> None:
    token_path(tmp_path).parent.mkdir()
    token_path(tmp_path).write_text("half")
    with pytest.raises(StateError, match="delete it"):
        own_token(tmp_path)


def test_a_port_in_use_is_told_with_its_owner() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(exposure.PortInUse, match=f"port {port} on 127.0.0.1 is in use by process {os.getpid()}"):
            exposure.listen(("127.0.0.1",), port)
        assert not exposure.is_port_free(("127.0.0.1",), port)
    assert exposure.is_port_free(("127.0.0.1",), port)


def test_an_address_of_another_machine_is_told() -> None:
    with pytest.raises(StateError, match="customBindHost"):
        exposure.listen(("192.0.2.7", "127.0.0.1"), 0)


def test_a_home_that_everyone_can_write_to_is_refused(tmp_path: Path) -> None:
    make_state_dir(tmp_path / "new")
    assert mode_of(tmp_path / "new") == 0o700
    (tmp_path / "new").chmod(0o777)
    with pytest.raises(StateError, match="chmod 700"):
        make_state_dir(tmp_path / "new")


PROXY = TrustedProxySettings(user_header=" X-Forwarded-User ", required_headers=("X-Forwarded-Proto",))


def behind(proxies: tuple[str, ...] = ("10.0.0.5",), bind: str = "lan", **fields: object) -> GatewaySettings:
    auth = GatewayAuthSettings(mode="trusted-proxy", trusted_proxy=msgspec.structs.replace(PROXY, **fields))
    return GatewaySettings(bind=bind, trusted_proxies=proxies, auth=auth)  # type: ignore[arg-type]


def test_a_proxy_in_front_is_asked_who_people_are() -> None:
    found = decide(behind(allow_users=("ann",)), {}, ExposureOptions())
    assert (found.mode, found.secret) == ("trusted-proxy", None)
    assert found.proxy is not None
    assert (found.proxy.user_header, found.proxy.required_headers) == ("x-forwarded-user", ("x-forwarded-proto",))
    assert host_rules(behind(), (), found.proxy).proxy == found.proxy
    assert decide(behind(bind="loopback", allow_loopback=True), {}, ExposureOptions()).local


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        (behind(user_header=" "), "gateway.auth.trustedProxy.userHeader"),
        (behind(proxies=()), "gateway.trustedProxies"),
        (behind(proxies=("proxy.example.org",)), "gateway.trustedProxies"),
        (behind(proxies=("0.0.0.0/0",)), "gateway.trustedProxies"),
        (behind(proxies=("10.0.0.5", "::/0")), "gateway.trustedProxies"),
        (behind(bind="loopback"), "gateway.auth.trustedProxy.allowLoopback"),
        (
            behind(device_auto_approve=DeviceAutoApproveSettings(enabled=True, scopes=("everything",))),
            "gateway.auth.trustedProxy.deviceAutoApprove.scopes",
        ),
    ],
)
def test_a_proxy_that_would_let_nobody_or_everybody_in_refuses_to_start(settings: GatewaySettings, path: str) -> None:
    with pytest.raises(ConfigError) as refused:
        decide(settings, {}, ExposureOptions())
    assert refused.value.path == path
