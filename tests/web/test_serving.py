"""How the page is served: which path gives what, under which policy, and what a one-time code is worth."""

import gzip
import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from openclaw.core.errors import ConfigError
from openclaw.gateway.http.pages import BUILT, MOST, SECONDS, LoginCodes, base_path, policy, read
from openclaw.testing import TemporaryHome
from tests.commandline import PATIENCE
from tests.e2e.gateway_process import GatewayProcess

PAGE_WEIGHT = 250_000


@pytest.fixture
def gateway(openclaw_home: TemporaryHome) -> Iterator[GatewayProcess]:
    with GatewayProcess(openclaw_home) as running:
        yield running


def ask(
    port: int, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def test_paths_lead_to_the_page_its_files_or_nothing(gateway: GatewayProcess) -> None:
    for path in ("/", "/chat/main", "/chat/agent%3Amain%3Av1.2", "/sessions", "/no/such/page", "/index.html"):
        status, headers, body = ask(gateway.port, "GET", path)
        assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8"), path
        assert b"<oc-app>" in body
        assert headers["cache-control"] == "no-cache"
    for path in ("/no.js", "/assets/app.js", "/api/users/1/avatar", "/v1/nothing", "/..%2f..%2fetc/passwd.txt"):
        assert ask(gateway.port, "GET", path)[0] == 404, path
    # What looks like a way out of the directory is only a page that does not exist.
    for path in ("/../../../../etc/passwd", "/assets/..%2f..%2fapp"):
        assert b"<oc-app>" in ask(gateway.port, "GET", path)[2], path
    assert ask(gateway.port, "HEAD", "/")[0] == 200
    assert ask(gateway.port, "POST", "/chat/main")[0] == 405


def test_the_page_comes_with_a_policy_that_lets_nothing_foreign_in(gateway: GatewayProcess) -> None:
    _, headers, body = ask(gateway.port, "GET", "/")
    rules = dict(rule.strip().split(" ", 1) for rule in headers["content-security-policy"].split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == "'self'"
    assert rules["connect-src"] == f"'self' ws://127.0.0.1:{gateway.port} wss://127.0.0.1:{gateway.port}"
    assert rules["frame-ancestors"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-content-type-options"] == "nosniff"
    assert b"<script>" not in body and b"http" not in body.replace(b"http-equiv", b"")


def test_built_files_are_sent_small_and_kept_for_good(gateway: GatewayProcess) -> None:
    names = [name for name in read(BUILT, "") if name.startswith("assets/")]
    weight = 0
    for name in names:
        status, headers, body = ask(gateway.port, "GET", f"/{name}", accept_encoding="gzip")
        assert status == 200 and "immutable" in headers["cache-control"]
        assert gzip.decompress(body) == (BUILT / name).read_bytes()
        assert ask(gateway.port, "GET", f"/{name}")[2] == (BUILT / name).read_bytes()
        weight += len(body)
        assert f'"/{name}"'.encode() in ask(gateway.port, "GET", "/")[2]
        assert ask(gateway.port, "GET", f"/{name}", if_none_match=headers["etag"])[0] == 304
    assert len(names) == 2
    assert weight < PAGE_WEIGHT


def test_a_code_is_traded_once_and_wrong_ones_are_counted(gateway: GatewayProcess) -> None:
    def trade(body: dict[str, Any] | bytes, **headers: str) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        status, _, answer = ask(gateway.port, "POST", "/control-ui-link", data, **headers)
        return status, json.loads(answer)

    code = link(gateway)["path"].partition("#code=")[2]
    assert trade({"code": code}, origin="https://evil.test")[0] == 403
    assert trade({"code": code}) == (200, {"token": gateway.token.reveal()})
    assert trade({"code": code})[0] == 403
    assert trade(b"{")[0] == 400
    for _ in range(20):
        status, told = trade({"code": "guess"})
        if status == 429:
            break
    assert status == 429 and "wait" in told["error"]["message"]


def link(gateway: GatewayProcess) -> dict[str, Any]:
    import asyncio

    async def main() -> dict[str, Any]:
        async with gateway.client() as client:
            made: dict[str, Any] = await client.call("dashboard.link", {})
            return made

    return asyncio.run(main())


def test_what_the_page_may_know_before_it_connects_needs_the_token(gateway: GatewayProcess) -> None:
    assert ask(gateway.port, "GET", "/control-ui-config.json")[0] == 401
    token = gateway.token.reveal()
    status, _, body = ask(gateway.port, "GET", "/control-ui-config.json", authorization=f"Bearer {token}")
    told = json.loads(body)
    assert status == 200
    assert (told["basePath"], told["assistantName"], told["assistantAgentId"]) == ("", "Assistant", "main")


def test_the_page_can_live_under_a_path_or_be_switched_off(openclaw_home: TemporaryHome) -> None:
    openclaw_home.configure({"gateway": {"controlUi": {"basePath": "claw/"}}})
    with GatewayProcess(openclaw_home) as gateway:
        status, headers, _ = ask(gateway.port, "GET", "/")
        assert (status, headers["location"]) == (307, "/claw/")
        body = ask(gateway.port, "GET", "/claw/chat/main")[2]
        assert b'data-openclaw-control-ui-base-path="/claw"' in body and b'"/claw/assets/app-' in body
        assert link(gateway)["path"].startswith("/claw/#code=")
        assert ask(gateway.port, "GET", "/elsewhere")[0] == 404
    openclaw_home.configure({"gateway": {"controlUi": {"enabled": False}}})
    with GatewayProcess(openclaw_home) as gateway:
        assert ask(gateway.port, "GET", "/")[0] == 404


@pytest.mark.parametrize("wrong", ["/a b", "/a/../b", "/a?x", '/"x', "/a#b"])
def test_a_base_path_that_is_none_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigError, match="not a path"):
        base_path(wrong)


def test_a_strange_host_does_not_get_into_the_policy() -> None:
    assert "evil" not in policy("a.test; script-src evil.test")
    assert "connect-src 'self' ws://[::1]:1 wss://[::1]:1;" in policy("[::1]:1")


def test_codes_run_out_and_never_repeat() -> None:
    links = LoginCodes()
    code, expires = links.make(1_000)
    assert expires == 1_000 + SECONDS * 1000
    assert not links.redeem(code, expires)
    codes = [links.make(2_000)[0] for _ in range(MOST + 1)]
    assert len(set(codes)) == len(codes)
    assert not links.redeem(codes[0], 2_000), "the oldest gave way"
    assert all(links.redeem(each, 2_000) for each in codes[1:])
    assert not any(links.redeem(each, 2_000) for each in codes)
