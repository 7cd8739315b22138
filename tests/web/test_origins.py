"""Who may come in: a browser nobody knows yet, and the same page from another origin."""

import contextlib
import http.server
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from openclaw.gateway.http.pages import BUILT
from openclaw.testing import TemporaryHome, says
from openclaw.testing.server import MockModelServer
from tests.web.support import SharedBrowser, say, site

pytestmark = pytest.mark.system


@contextmanager
def elsewhere(gateway: str) -> Iterator[str]:
    """The built page, served by somebody else, who says where the gateway is."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.split("?")[0].lstrip("/")
            path = BUILT / name if name and (BUILT / name).is_file() else BUILT / "index.html"
            data = path.read_bytes()
            if path.name == "index.html":
                data = data.replace(b"<html ", f'<html data-openclaw-gateway-url="{gateway}" '.encode(), 1)
            self.send_response(200)
            kinds = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
            self.send_header("content-type", kinds.get(Path(name).suffix, "text/html"))
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_the_page_of_another_origin_works_only_when_that_origin_is_allowed(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    with MockModelServer([says("from afar")]) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here, elsewhere(f"ws://127.0.0.1:{here.gateway.port}/") as origin:
            page = here.visitor().new_page()
            page.goto(f"{origin}/#token={here.gateway.token.reveal()}")
            page.wait_for_selector(".gate .problem")
            assert "origin" in page.inner_text(".gate")
            port = here.gateway.port
            here.gateway.stop()
            allowed = {"gateway": {"controlUi": {"allowedOrigins": [origin]}}}
            openclaw_home.configure({**server.settings(), **allowed})
            here.gateway.start(port)
            page = here.visitor().new_page()
            page.goto(f"{origin}/")
            page.wait_for_selector(".gate >> text=talks to the gateway at")
            page.fill("input[name=token]", here.gateway.token.reveal())
            page.click("text=Connect")
            page.wait_for_selector("oc-chat .talk")
            say(page, "hello over there")
            page.wait_for_selector("article.assistant >> text=from afar")
            assert page.url.startswith(origin)


def test_no_address_can_send_the_page_to_another_gateway(openclaw_home: TemporaryHome, browser: SharedBrowser) -> None:
    with site(openclaw_home, browser) as here:
        page = here.visitor().new_page()
        sockets: list[str] = []
        page.on("websocket", lambda socket: sockets.append(socket.url))
        evil = "ws%3A%2F%2F127.0.0.1%3A9%2F"
        token = here.gateway.token.reveal()
        page.goto(f"{here.address}/?gatewayUrl={evil}&gateway={evil}#token={token}&gatewayUrl={evil}")
        page.wait_for_selector("oc-chat .talk")
        assert sockets and all(url.startswith(f"ws://127.0.0.1:{here.gateway.port}/") for url in sockets)


@contextmanager
def proxy(port: int, client: str) -> Iterator[int]:
    """Passes connections on to `port` and says that they come from `client`."""

    class Passing(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            head = b""
            while b"\r\n\r\n" not in head:
                data = self.request.recv(65_536)
                if not data:
                    return
                head += data
            # One request a connection, so that each of them is marked.
            mark = f"\r\nx-forwarded-for: {client}\r\n".encode()
            close = b"" if b"upgrade: websocket" in head.lower() else b"connection: close\r\n"
            head = head.replace(b"\r\nConnection: keep-alive", b"").replace(b"\r\n", mark + close, 1)
            with socket.create_connection(("127.0.0.1", port)) as gateway:
                gateway.sendall(head)
                back = threading.Thread(target=pump, args=(gateway, self.request))
                back.start()
                pump(self.request, gateway)
                back.join()

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Passing)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def test_a_browser_from_elsewhere_waits_until_a_page_that_is_in_approves_it(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    openclaw_home.configure({"gateway": {"trustedProxies": ["127.0.0.1"]}})
    with site(openclaw_home, browser) as here, proxy(here.gateway.port, "203.0.113.9") as port:
        page = here.open()
        stranger = here.visitor().new_page()
        stranger.goto(f"http://127.0.0.1:{port}/#token={here.gateway.token.reveal()}")
        stranger.wait_for_selector(".gate >> text=Waiting for approval")
        page.click("nav a[href$='/system']")
        page.wait_for_selector(".approval >> text=May this device come in?")
        assert "203.0.113.9" in page.inner_text(".approval")
        page.click(".approval .primary")
        stranger.wait_for_selector("oc-chat .talk")
        page.wait_for_selector(".approval", state="detached")
        assert page.locator("oc-system tbody").first.locator("tr").count() == 2
