"""IRC against ngircd: the message flow of a gateway with a server that others wrote, over TLS."""

import asyncio
import datetime
import ipaddress
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from openclaw.testing import TemporaryHome, says
from openclaw.testing.server import MockModelServer
from tests.commandline import typed
from tests.e2e.gateway_process import GatewayProcess
from tests.servers.dovecot import free_port

pytestmark = [pytest.mark.anyio, pytest.mark.servers]

PATIENCE = 120.0
CONFIG = """
[Global]
    Name = irc.test
    Info = a test
    Listen = 127.0.0.1
    Ports = {plain}
    Password = open sesame
    ServerUID = {user}
    ServerGID = {group}
[Limits]
    MaxConnectionsIP = 0
    MaxPenaltyTime = 0
[Options]
    DNS = no
    Ident = no
    PAM = no
[SSL]
    CertFile = {folder}/cert.pem
    KeyFile = {folder}/key.pem
    Ports = {tls}
"""


def write_certificate(folder: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "irc.test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    (folder / "key.pem").write_bytes(pem)


@contextmanager
def ngircd(folder: Path) -> Iterator[tuple[int, int]]:
    """A running server: its ports without and with TLS."""
    program = shutil.which("ngircd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        pytest.skip("ngircd is not installed: it is Debian's ngircd")
    plain, tls, config = free_port(), free_port(), folder / "ngircd.conf"
    write_certificate(folder)
    config.write_text(CONFIG.format(plain=plain, tls=tls, folder=folder, user=os.geteuid(), group=os.getegid()))
    log = folder / "ngircd.out"
    with log.open("wb") as out:
        server = subprocess.Popen([program, "-n", "-f", str(config)], stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                socket.create_connection(("127.0.0.1", tls), 5).close()
                break
            except OSError:
                assert server.poll() is None and time.monotonic() < deadline, log.read_text()[-2000:]
                time.sleep(0.1)
        yield plain, tls
    finally:
        server.terminate()
        server.wait()


class TrustingHome(TemporaryHome):
    """A home whose programs trust the test's certificate."""

    @property
    def environ(self) -> dict[str, str]:
        return {**super().environ, "SSL_CERT_FILE": str(self.root / "ngircd" / "cert.pem")}


class Person:
    """Somebody with a client of their own."""

    def __init__(self, port: int, nick: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self._file = self._socket.makefile("rb")
        self.write("PASS :open sesame")
        self.write(f"NICK {nick}")
        self.write(f"USER {nick} 0 * :{nick}")
        self.until(" 001 ")

    def write(self, line: str) -> None:
        self._socket.sendall(f"{line}\r\n".encode())

    def until(self, words: str) -> str:
        """The next line with these words."""
        for raw in self._file:
            line = raw.decode()
            if line.startswith("PING"):
                self.write(line.strip().replace("PING", "PONG", 1))
            if words in line:
                assert len(raw) <= 512
                return line.strip()
        raise AssertionError("the server has closed the connection")

    def close(self) -> None:
        self._file.close()
        self._socket.close()


async def test_a_conversation_and_a_channel_over_tls(tmp_path: Path) -> None:
    home = TrustingHome(tmp_path)
    folder = tmp_path / "ngircd"
    folder.mkdir()
    long = "Ein längerer Satz über irgendetwas. " * 40
    answers = [says("**Good** day."), says(long), says("To all.")]
    with MockModelServer(answers) as model, ngircd(folder) as (plain, tls):
        ada = await asyncio.to_thread(Person, plain, "ada")
        mask = ada_mask(ada)
        home.configure(
            {
                **model.settings(),
                "channels": {"irc": {"groups": {"#club": {"allowFrom": [mask]}}}},
                "commands": {"ownerAllowFrom": [f"irc:{mask}"]},
            }
        )
        command = ["channels", "add", "irc", "--server", f"ircs://127.0.0.1:{tls}", "--nick", "claw"]
        wrong = typed(home)(*command, "--server-password", "wrong")
        assert wrong.code and "Bad password" in wrong.err and "channels.irc.serverPassword" in wrong.err, wrong.err
        added = typed(home)(*command, "--server-password", "open sesame")
        assert "IRC: this is claw on 127.0.0.1; tried, and saved." in added.out, added.err
        ada.write("JOIN #club")
        with GatewayProcess(home):
            await asyncio.to_thread(ada.until, ":claw!")  # it has joined
            ada.write("PRIVMSG claw :hello")
            assert (await asyncio.to_thread(ada.until, "PRIVMSG ada")).endswith(":\x02Good\x02 day.")
            ada.write("PRIVMSG claw :tell me everything")
            heard = ""
            while len(heard.split()) < len(long.split()):
                heard += (await asyncio.to_thread(ada.until, "PRIVMSG ada")).partition(" :")[2] + " "
            assert heard.split() == long.split()
            ada.write("PRIVMSG #club :claw: and here?")
            assert (await asyncio.to_thread(ada.until, "PRIVMSG #club")).endswith(":To all.")
        ada.close()


def ada_mask(person: Person) -> str:
    """How the server shows somebody to others."""
    person.write("JOIN #club")
    return person.until("JOIN").split()[0].removeprefix(":").lower()
