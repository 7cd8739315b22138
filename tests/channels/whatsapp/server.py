"""Meta's Cloud API on loopback, with faults on demand; and the calls it makes."""

import hashlib
import hmac
import json
import re
import time
from typing import Any

from openclaw.core.channel import ChannelWebhook
from tests.channels.http_fault import Answer, HttpFaultServer

TOKEN, APP_SECRET, VERIFY = "test-token", "test-app-secret", "test-verify"
NUMBER_ID, NUMBER = "1122334455", "15550009999"
ADA, EVE = "15551110001", "15551110002"


class CloudApi(HttpFaultServer):
    """What the number said is in `sent`; everything that was asked in `asked`."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []
        self.media: dict[str, bytes] = {}
        self.uploads = 0
        self.looked = 0
        """How often the number was asked for."""
        self.closed = False
        """The person has not written for 24 hours."""
        self._count = 0

    @property
    def section(self) -> dict[str, Any]:
        return {
            "phoneNumberId": NUMBER_ID,
            "accessToken": TOKEN,
            "appSecret": APP_SECRET,
            "verifyToken": VERIFY,
            "apiRoot": self.url,
        }

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        if headers.get("authorization") != f"Bearer {TOKEN}":
            return _error(401, 190, "Invalid OAuth access token")
        if path.startswith("/files/"):
            return 200, self.media[path.rpartition("/")[2]]
        rest = re.sub(r"\A/v\d+\.\d+/", "", path)
        if method == "GET" and rest.startswith(f"{NUMBER_ID}?"):
            self.looked += 1
            return 200, json.dumps({"display_phone_number": f"+{NUMBER}", "verified_name": "Claw"}).encode()
        if method == "GET" and rest in self.media:
            return 200, json.dumps({"url": f"{self.url}/files/{rest}"}).encode()
        if rest == f"{NUMBER_ID}/media":
            self.uploads += 1
            self.media[f"up{self.uploads}"] = body
            return 200, json.dumps({"id": f"up{self.uploads}"}).encode()
        if rest == f"{NUMBER_ID}/messages":
            return self._message(json.loads(body))
        return _error(400, 100, "Unsupported request")

    def _message(self, said: dict[str, Any]) -> Answer:
        self.asked.append(said)
        if "status" in said:
            return 200, b'{"success": true}'
        if self.closed:
            return _error(400, 131047, "Re-engagement message")
        if said["type"] == "text" and len(said["text"]["body"]) > 4096:
            return _error(400, 100, "Param text['body'] must be at most 4096 characters long")
        self._count += 1
        self.sent.append(said)
        return 200, json.dumps({"messages": [{"id": f"wamid.out{self._count}"}]}).encode()

    def texts(self) -> list[str]:
        return [each["text"]["body"] for each in list(self.sent) if each["type"] == "text"]

    def hears(self, count: int) -> list[dict[str, Any]]:
        self.until(lambda: len(self.sent) >= count)
        return list(self.sent)

    def says(self, text: str = "", sender: str = ADA, number: str = NUMBER_ID, **more: Any) -> ChannelWebhook:
        """A signed call of Meta's with one message."""
        self._count += 1
        message = {
            "from": sender,
            "id": f"wamid.in{self._count}",
            "timestamp": str(int(time.time())),
            **({"type": "text", "text": {"body": text}} if text else {}),
            **more,
        }
        return signed(
            value_of({"contacts": [{"wa_id": sender, "profile": {"name": "Ada"}}], "messages": [message]}, number)
        )


def value_of(value: dict[str, Any], number: str = NUMBER_ID) -> dict[str, Any]:
    metadata = {"phone_number_id": number, "display_phone_number": f"+{NUMBER}"}
    full = {"messaging_product": "whatsapp", "metadata": metadata, **value}
    return {
        "object": "whatsapp_business_account",
        "entry": [{"id": "1", "changes": [{"field": "messages", "value": full}]}],
    }


def signed(body: dict[str, Any], secret: str = APP_SECRET) -> ChannelWebhook:
    raw = json.dumps(body).encode()
    digest = hmac.new(secret.encode(), raw, hashlib.sha256).hexdigest()
    return ChannelWebhook(body=raw, headers={"x-hub-signature-256": f"sha256={digest}"})


def _error(status: int, code: int, message: str) -> Answer:
    return status, json.dumps({"error": {"message": message, "type": "OAuthException", "code": code}}).encode()
