"""Dovecot and aiosmtpd on loopback: a mailbox, and a server that takes mail for others."""

import imaplib
import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from email.policy import default
from pathlib import Path
from typing import Any

import pytest

PASSWORD = "secret"
PATIENCE = 120.0
CONFIG = """
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/dovecot.log
protocols = imap
ssl = no
disable_plaintext_auth = no
mail_location = maildir:{folder}/mail/%u
first_valid_uid = 1
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={user} gid={group} home={folder}/home
}}
service imap-login {{
  inet_listener imap {{
    port = {port}
    address = 127.0.0.1
  }}
  inet_listener imaps {{
    port = 0
  }}
}}
"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Dovecot:
    """A running server; every name is an account with the same password."""

    def __init__(self, port: int) -> None:
        self.port = port

    def receives(self, user: str, raw: bytes) -> None:
        with imaplib.IMAP4("127.0.0.1", self.port) as imap:
            imap.login(user, PASSWORD)
            assert imap.append("INBOX", "", "", raw)[0] == "OK"


@contextmanager
def dovecot(folder: Path) -> Iterator[Dovecot]:
    program = shutil.which("dovecot", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        pytest.skip("dovecot is not installed: it is Debian's dovecot-imapd")
    if os.geteuid():
        pytest.skip("dovecot starts its parts as other users, which only root may")
    person = pwd.getpwnam("nobody")
    port, config = free_port(), folder / "dovecot.conf"
    for name in ("mail", "home"):
        (folder / name).mkdir()
        os.chown(folder / name, person.pw_uid, person.pw_gid)
    for parent in (folder, *folder.parents):
        if parent.owner() == "root" and parent.is_relative_to(Path("/tmp")) and parent != Path("/tmp"):
            parent.chmod(parent.stat().st_mode | 0o055)
    config.write_text(
        CONFIG.format(folder=folder, user=person.pw_uid, group=person.pw_gid, password=PASSWORD, port=port)
    )
    log = folder / "dovecot.out"
    with log.open("wb") as out:
        server = subprocess.Popen([program, "-F", "-c", str(config)], stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                with imaplib.IMAP4("127.0.0.1", port) as imap:
                    imap.login("claw", PASSWORD)
                break
            except (OSError, imaplib.IMAP4.error):
                said = "".join(each.read_text()[-1000:] for each in (log, folder / "dovecot.log") if each.exists())
                assert server.poll() is None and time.monotonic() < deadline, said
                time.sleep(0.1)
        yield Dovecot(port)
    finally:
        server.terminate()
        server.wait()


class Postbox:
    """What an SMTP server took."""

    def __init__(self) -> None:
        self.port = free_port()
        self.taken: list[Any] = []

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        self.taken.append(message_from_bytes(envelope.content, policy=default))
        return "250 Message accepted for delivery"

    def until(self, count: int) -> list[Any]:
        deadline = time.monotonic() + PATIENCE
        while len(self.taken) < count:
            assert time.monotonic() < deadline, f"only {len(self.taken)} mails"
            time.sleep(0.05)
        return self.taken


@contextmanager
def postbox(user: str) -> Iterator[Postbox]:
    controllers = pytest.importorskip("aiosmtpd.controller", reason="aiosmtpd is not installed")
    smtp = pytest.importorskip("aiosmtpd.smtp")

    def check(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> Any:
        good = (data.login, data.password) == (user.encode(), PASSWORD.encode())
        return smtp.AuthResult(success=good, handled=good)

    found = Postbox()
    controller = controllers.Controller(
        found,
        hostname="127.0.0.1",
        port=found.port,
        authenticator=check,
        auth_required=True,
        auth_require_tls=False,
    )
    controller.start()
    try:
        yield found
    finally:
        controller.stop()
