"""Homes written by earlier versions, opened through the front door alone: the command, the socket, the files.

Nothing of the program's inside is imported here, so that the inside may move while these homes stay as they are.
"""

import base64
import hashlib
import itertools
import json
import sqlite3
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from websockets.sync.client import ClientConnection, connect

from openclaw.testing import TemporaryHome

HOMES = Path(__file__).parents[1] / "fixtures" / "homes"
WRITTEN_AT = "/tmp/openclaw-earlier-home"
"""Where every fixture was written, and therefore the only path of a machine in it."""
GATEWAY_TOKEN = "not-a-secret-" * 3
PHONE = "not a secret either: the key of a phone"
DEADLINE = 300.0

# Stored under digests of what they hold, or kept word for word.
ADDRESSED_BY_CONTENT = {"prompt_texts", "record_blobs", "call_records", "prompts"}
MILLISECONDS = 1_000_000_000_000
"""Every larger number in the database is a time."""
DAY = 86_400_000


def unpack(archive: Path, root: Path) -> TemporaryHome:
    """Copies a home to `root` as it would be if it had been written there, and killed just now.

    Paths are rewritten, and the times in the database moved: finished work is forgotten after a week, and the test
    is run for years. What is stored under the digest of its content stays as it is.
    """
    with tarfile.open(archive) as tar:
        tar.extractall(root, filter="tar")
    home = TemporaryHome(root)
    (database,) = home.state.glob("state/*.sqlite")
    days = _rewrite(database, str(root)) // DAY
    for path in (*home.state.rglob("*.json"), *home.state.rglob("*.jsonl")):
        if path.parent.name != "audit" and WRITTEN_AT in (text := path.read_text()):
            path.write_text(text.replace(WRITTEN_AT, str(root)))
    for path in home.state.glob("audit/*.jsonl"):
        # Entries are chained by digests and stay as they are; how old they are is told by the name of their file.
        day = date.fromisoformat(path.stem) + timedelta(days=days)
        path.rename(path.with_name(f"{day.isoformat()}.jsonl"))
    return home


def _rewrite(database: Path, root: str) -> int:
    """Moves the paths and times in `database`; gives by how many milliseconds."""
    store = sqlite3.connect(database)
    try:
        (killed,) = store.execute("SELECT max(updated_at) FROM inputs").fetchone()
        moved = int(time.time() * 1000) - int(killed)
        store.execute("UPDATE model_calls SET day = date(day, ?)", (f"{moved // DAY:+d} days",))
        tables = [name for (name,) in store.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            for _, column, *_ in store.execute(f"PRAGMA table_info({table})").fetchall():
                store.execute(
                    f"UPDATE {table} SET {column} = {column} + ? WHERE typeof({column}) = 'integer' AND {column} > ?",
                    (moved, MILLISECONDS),
                )
                if table not in ADDRESSED_BY_CONTENT:
                    store.execute(
                        f"UPDATE {table} SET {column} = replace({column}, ?, ?) WHERE instr({column}, ?)",
                        (WRITTEN_AT, root, WRITTEN_AT),
                    )
        store.commit()
    finally:
        store.close()
    return moved


class Typed(NamedTuple):
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


class Gateway:
    """`openclaw gateway run` on a home, and the commands a person types beside it."""

    def __init__(self, home: TemporaryHome, model_url: str) -> None:
        self.home = home
        self.environ = {**home.environ, "MODEL_URL": model_url}
        self.process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def type(self, *words: str) -> Typed:
        done = subprocess.run(
            [sys.executable, "-m", "openclaw", *words],
            env=self.environ,
            cwd=self.home.workspace,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Typed(done.returncode, done.stdout, done.stderr)

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "openclaw", "gateway", "run", "--port", "0"],
                env=self.environ,
                cwd=self.home.root,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        until(self._is_ready, self._output)

    def kill(self) -> None:
        """Ends the process as a power cut would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(DEADLINE)

    @property
    def log(self) -> Path:
        return self.home.root / "gateway.out"

    def _output(self) -> str:
        return self.log.read_text(errors="replace")

    def _is_ready(self) -> bool:
        assert self.process is not None and self.process.poll() is None, self._output()
        try:
            lock = json.loads((self.home.state / "gateway.lock").read_text())
            # A killed gateway leaves its lock file behind: it tells the port of a process that is gone.
            if lock["pid"] != self.process.pid or not lock.get("port"):
                return False
            self.port = lock["port"]
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=5):
                return True
        except (FileNotFoundError, ValueError, urllib.error.URLError):
            return False

    def __enter__(self) -> "Gateway":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()


class Refused(Exception):
    """The gateway answered with an error; `code` is the reason a machine reads."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code = (error.get("details") or {}).get("code", error["code"])


class Wire:
    """A connection to a gateway, frame by frame. Made by `dial`."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._ids = itertools.count(1)

    def greet(self, phone: Ed25519PrivateKey | None) -> None:
        challenge = self._receive()["payload"]
        self.call("connect", _introduction(challenge, phone))

    def call(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """The payload of the answer; events that come before it are dropped."""
        request = str(next(self._ids))
        self._socket.send(json.dumps({"type": "req", "id": request, "method": method, "params": params or {}}))
        while (frame := self._receive())["type"] != "res" or frame["id"] != request:
            pass
        if not frame["ok"]:
            raise Refused(frame["error"])
        return frame.get("payload")

    def say(self, run: str, text: str, session: str = "main", **more: Any) -> None:
        self.call("chat.send", {"sessionKey": session, "message": text, "idempotencyKey": run, **more})

    def answered(self, run: str) -> Any:
        """Waits for the end of a run."""
        ended = self.call("agent.wait", {"runId": run, "timeoutMs": int(DEADLINE * 1000)})
        assert ended["status"] == "ok", ended
        return ended

    def messages(self, session: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.call("chat.history", {"sessionKey": session})["messages"]
        return found

    def _receive(self) -> dict[str, Any]:
        frame: dict[str, Any] = json.loads(self._socket.recv(2 * DEADLINE))
        return frame


@contextmanager
def dial(port: int, *, phone: Ed25519PrivateKey | None = None) -> Iterator[Wire]:
    """A greeted connection: this machine's owner, or a phone that comes from elsewhere with its key."""
    # A device is asked to pair when it comes from elsewhere; a proxy's header says so.
    headers = {"x-forwarded-for": "203.0.113.7"} if phone else {}
    with connect(
        f"ws://127.0.0.1:{port}", additional_headers=headers, compression=None, max_size=None, proxy=None
    ) as socket:
        wire = Wire(socket)
        wire.greet(phone)
        yield wire


def phone_key() -> Ed25519PrivateKey:
    """The key of the phone that every fixture has paired."""
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(PHONE.encode()).digest())


def device_id(key: Ed25519PrivateKey) -> str:
    return hashlib.sha256(_public(key)).hexdigest()


def until(look: Callable[[], Any], complain: Callable[[], str] = str) -> Any:
    """What `look` gives, as soon as it is something."""
    deadline = time.monotonic() + DEADLINE
    while not (found := look()):
        assert time.monotonic() < deadline, complain()
        time.sleep(0.05)
    return found


def _introduction(challenge: dict[str, Any], key: Ed25519PrivateKey | None) -> dict[str, Any]:
    """The parameters of `connect`: this machine's command line, or a phone with a key."""
    client = {"id": "cli", "version": "0", "platform": "test", "mode": "cli"}
    scopes = ["operator.admin"]
    if key:
        client = {"id": "openclaw-ios", "version": "1", "platform": "ios", "mode": "ui", "displayName": "A phone"}
        scopes = ["operator.read", "operator.write"]
    params = {
        "minProtocol": 4,
        "maxProtocol": 4,
        "client": client,
        "role": "operator",
        "scopes": scopes,
        "auth": {"token": GATEWAY_TOKEN},
    }
    if key:
        fields = ["v3", device_id(key), client["id"], client["mode"], "operator", ",".join(scopes)]
        fields += [str(challenge["ts"]), GATEWAY_TOKEN, challenge["nonce"], client["platform"], ""]
        params["device"] = {
            "id": device_id(key),
            "publicKey": _base64url(_public(key)),
            "signature": _base64url(key.sign("|".join(fields).encode())),
            "signedAt": challenge["ts"],
            "nonce": challenge["nonce"],
        }
    return params


def _public(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
