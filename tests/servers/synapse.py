"""Synapse, the Matrix server of Element: installed once per machine, started for a test run, with people to talk to."""

import fcntl
import hashlib
import hmac
import json
import os
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

PACKAGES = ("matrix-synapse>=1.150",)
PATIENCE = 120.0
SECRET = "only-for-tests"
NO_LIMIT = {"per_second": 10_000, "burst_count": 10_000}


def python_with_synapse() -> Path:
    """The Python of a virtual environment that has Synapse; skips the test where it cannot be installed."""
    cache = Path(os.environ.get("OPENCLAW_TEST_CACHE") or Path.home() / ".cache" / "openclaw-test")
    home = cache / "synapse"
    python, ready = home / "bin" / "python", home / "ready"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "synapse.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists():
            for command in (
                (sys.executable, "-m", "venv", str(home)),
                (str(python), "-m", "pip", "install", "--quiet", *PACKAGES),
            ):
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode:
                    why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
                    pytest.skip(f"Synapse cannot be installed here: {why}")
            ready.touch()
    return python


@contextmanager
def synapse(directory: Path) -> Iterator[str]:
    """A server on a free port; gives its address."""
    python = python_with_synapse()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config: dict[str, Any] = {
        "server_name": "localhost",
        "pid_file": str(directory / "synapse.pid"),
        "listeners": [
            {"port": port, "bind_addresses": ["127.0.0.1"], "type": "http", "resources": [{"names": ["client"]}]}
        ],
        "database": {"name": "sqlite3", "args": {"database": str(directory / "synapse.db")}},
        "media_store_path": str(directory / "media"),
        "signing_key_path": str(directory / "signing.key"),
        "registration_shared_secret": SECRET,
        "macaroon_secret_key": SECRET,
        "form_secret": SECRET,
        "report_stats": False,
        "trusted_key_servers": [],
        "suppress_key_server_warning": True,
        "max_upload_size": "1M",
        "rc_message": NO_LIMIT,
        "rc_registration": NO_LIMIT,
        "rc_joins": {"local": NO_LIMIT, "remote": NO_LIMIT},
        "rc_invites": {"per_room": NO_LIMIT, "per_user": NO_LIMIT, "per_issuer": NO_LIMIT},
        "rc_login": {"address": NO_LIMIT, "account": NO_LIMIT, "failed_attempts": NO_LIMIT},
    }
    file = directory / "homeserver.yaml"
    file.write_text(json.dumps(config))
    command = [str(python), "-m", "synapse.app.homeserver", "--config-path", str(file)]
    subprocess.run([*command, "--generate-keys"], check=True, capture_output=True)
    with (directory / "synapse.out").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, cwd=directory)
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + PATIENCE
        while not _answers(url):
            assert server.poll() is None and time.monotonic() < deadline, (directory / "synapse.out").read_text()[
                -2000:
            ]
            time.sleep(0.1)
        yield url
    finally:
        server.terminate()
        server.wait()


def _answers(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/_matrix/client/versions", timeout=5.0).status_code == 200
    except httpx2.HTTPError:
        return False


class Person:
    """Somebody with an account, and a plain client."""

    def __init__(self, url: str, name: str) -> None:
        self.password = uuid.uuid4().hex
        self._root = f"{url}/_matrix/client/v3/"
        root = f"{url}/_synapse/admin/v1/register"
        nonce = httpx2.get(root).json()["nonce"]
        name = f"{name}-{uuid.uuid4().hex[:6]}"
        signed = "\0".join((nonce, name, self.password, "notadmin")).encode()
        mac = hmac.new(SECRET.encode(), signed, hashlib.sha1).hexdigest()
        body = {"nonce": nonce, "username": name, "password": self.password, "admin": False, "mac": mac}
        made = httpx2.post(root, json=body).json()
        self.id, self.token = str(made["user_id"]), str(made["access_token"])

    def call(self, method: str, path: str, body: Any = None, **query: str) -> dict[str, Any]:
        headers = {"authorization": f"Bearer {self.token}"}
        sent = None if method == "GET" else body if body is not None else {}
        answer = httpx2.request(
            method, self._root + path, json=sent, params=query or None, headers=headers, timeout=60.0
        )
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def room(self, *people: str, **more: Any) -> str:
        made = self.call("POST", "createRoom", {"invite": list(people), "preset": "private_chat", **more})
        return str(made["room_id"])

    def says(self, room: str, text: str, **more: Any) -> str:
        return self.does(room, "m.room.message", {"msgtype": "m.text", "body": text, **more})

    def does(self, room: str, kind: str, content: dict[str, Any]) -> str:
        path = f"rooms/{quote(room, safe='')}/send/{kind}/{uuid.uuid4().hex}"
        return str(self.call("PUT", path, content)["event_id"])

    def until(self, room: str, found: Any, seconds: float = PATIENCE) -> dict[str, Any]:
        """The first event in the room that `found` says yes to, from the beginning of it."""
        deadline = time.monotonic() + seconds
        while True:
            for event in self.events(room):
                if found(event):
                    return event
            assert time.monotonic() < deadline, "it did not happen"
            time.sleep(0.1)

    def events(self, room: str) -> list[dict[str, Any]]:
        path = f"rooms/{quote(room, safe='')}/messages"
        return list(self.call("GET", path, dir="f", limit="500")["chunk"])
