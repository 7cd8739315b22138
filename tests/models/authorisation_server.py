"""A provider on loopback that signs people in by PKCE, gives keys for codes, and answers as a model to who has one."""

import base64
import hashlib
import json
import secrets
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

KEY = "sk-or-v1-issued-to-this-person-0123456789"


class AuthorisationServer:
    """`denies` when the person does not agree, `broke` when the account has no credit."""

    def __init__(self, *, denies: bool = False, broke: bool = False) -> None:
        self.denies = denies
        self.broke = broke
        self.challenges: dict[str, str] = {}
        """By code that was handed out and not used yet."""
        self.exchanged: list[dict[str, Any]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def settings(self) -> dict[str, Any]:
        """Configuration in which OpenRouter is here."""
        return {"models": {"providers": {"openrouter": {"baseUrl": f"{self.origin}/api/v1"}}}}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def agree(self, asked: dict[str, list[str]]) -> str:
        """Where the person's browser goes next."""
        callback = asked["callback_url"][0]
        if self.denies:
            return f"{callback}?error=access_denied&error_description=You+did+not+agree"
        assert asked["code_challenge_method"] == ["S256"]
        code = secrets.token_urlsafe(12)
        self.challenges[code] = asked["code_challenge"][0]
        return f"{callback}?code={code}"

    def exchange(self, given: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.exchanged.append(given)
        digest = hashlib.sha256(given["code_verifier"].encode()).digest()
        fits = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if given["code_challenge_method"] != "S256" or self.challenges.pop(given["code"], None) != fits:
            return 403, {"error": {"code": 403, "message": "Invalid code or code_verifier"}}
        return 200, {"key": KEY, "user_id": "user_1"}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                if parts.path == "/auth":
                    page = f'<a href="/agreed?{parts.query}">Authorize</a>'.replace("&", "&amp;")
                    self._send(200, page.encode(), "text/html")
                elif parts.path == "/agreed":
                    self.send_response(302)
                    self.send_header("location", server.agree(parse_qs(parts.query)))
                    self.send_header("content-length", "0")
                    self.end_headers()
                else:
                    self._send(404, b"{}")

            def do_POST(self) -> None:
                given = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if self.path == "/api/v1/auth/keys":
                    status, answer = server.exchange(given)
                    self._send(status, json.dumps(answer).encode())
                elif self.headers["authorization"] != f"Bearer {KEY}":
                    self._send(401, b'{"error": {"message": "No auth credentials found"}}')
                elif server.broke:
                    self._send(402, b'{"error": {"message": "Insufficient credits"}}')
                else:
                    parts = ({"choices": [{"index": 0, "delta": {"content": "ready"}, "finish_reason": "stop"}]},)
                    body = "".join(f"data: {json.dumps(part)}\n\n" for part in parts) + "data: [DONE]\n\n"
                    self._send(200, body.encode(), "text/event-stream")

            def _send(self, status: int, body: bytes, kind: str = "application/json") -> None:
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                return

        return Handler
