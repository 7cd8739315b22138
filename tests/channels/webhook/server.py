"""A program on the other side of the webhook: checks signatures, takes every message once, calls with its own."""

import json
import time
from typing import Any

import httpx2

from openclaw.channels.webhook import wire
from openclaw.core.channel import ChannelWebhook
from tests.channels.http_fault import Answer, HttpFaultServer

SECRET = "whsec_c2VjcmV0LW9mLXRoZS10ZXN0LXByb2dyYW0="


class WebhookProgram(HttpFaultServer):
    """What the assistant said is in `sent`."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[dict[str, Any]] = []
        self.pings = 0
        self.files: dict[str, bytes] = {}
        self._names: set[str] = set()
        self._count = 0

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        if method == "GET":
            return (200, self.files[path]) if path in self.files else (404, b"")
        name = wire.check_signature(wire.signing_key(SECRET), headers, body, time.time())
        said = json.loads(body)
        if said["type"] == "ping":
            self.pings += 1
        elif name not in self._names:
            self._names.add(name)
            self.sent.append(said)
        return 200, json.dumps({"id": f"there-{len(self.sent)}"}).encode()

    def call(self, secret: str = SECRET, name: str = "", at: float | None = None, **said: Any) -> ChannelWebhook:
        """A signed call."""
        self._count += 1
        body = json.dumps({"sender": "ada", **said}).encode()
        name, now = name or f"call-{self._count}", int(time.time() if at is None else at)
        headers = {
            "webhook-id": name,
            "webhook-timestamp": str(now),
            "webhook-signature": f"v1,bm9uc2Vuc2U= {wire.sign(wire.signing_key(secret), name, now, body)}",
        }
        return ChannelWebhook(body=body, headers=headers)

    def texts(self) -> list[str]:
        return [each["text"] for each in list(self.sent)]

    def hears(self, count: int) -> list[dict[str, Any]]:
        self.until(lambda: len(self.sent) >= count)
        return list(self.sent)


def post(port: int, path: str, call: ChannelWebhook) -> httpx2.Response:
    return httpx2.post(f"http://127.0.0.1:{port}{path}", content=call.body, headers=dict(call.headers), timeout=60.0)
