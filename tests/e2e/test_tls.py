"""A gateway that speaks https and wss: our own commands, other clients, and certificates nobody should accept."""

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID
from websockets.asyncio.client import connect as websocket

from openclaw.config.settings import TlsSettings
from openclaw.core.errors import ConfigError
from openclaw.gateway.http.certificates import load_certificate
from openclaw.gateway.running import running_gateway
from openclaw.protocol.connect_request import ConnectionLost, ConnectOptions
from openclaw.protocol.websocket import connect
from openclaw.testing import TemporaryHome
from tests.commandline import typed
from tests.e2e.gateway_process import GatewayProcess

NOW = datetime.now(UTC)
DAY = timedelta(days=1)


def made(
    folder: Path,
    *,
    since: datetime = NOW - DAY,
    until: datetime = NOW + 100 * DAY,
    seal: KeySerializationEncryption | None = None,
    key: Any = None,
) -> TlsSettings:
    """Files as an authority of somebody's own would hand them out."""
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    shown = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(1)
        .not_valid_before(since)
        .not_valid_after(until)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(private, hashes.SHA256())
    )
    kept = (key or private).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, seal or NoEncryption())
    (folder / "cert.pem").write_bytes(shown.public_bytes(Encoding.PEM))
    (folder / "key.pem").write_bytes(kept)
    return TlsSettings(enabled=True, cert_path=str(folder / "cert.pem"), key_path=str(folder / "key.pem"))


@pytest.mark.anyio
async def test_our_own_commands_know_the_gateway_by_its_certificate(openclaw_home: TemporaryHome) -> None:
    openclaw_home.configure({"gateway": {"tls": {"enabled": True}}})
    with GatewayProcess(openclaw_home) as gateway:
        assert gateway.fingerprint
        done = await asyncio.to_thread(typed(openclaw_home), "health")
        assert done.code == 0, done.err
        done = await asyncio.to_thread(typed(openclaw_home), "gateway", "call", "health")
        assert done.code == 0 and '"ok": true' in done.out, done.err
        status = await asyncio.to_thread(typed(openclaw_home), "gateway", "status")
        assert status.code == 0 and ", encrypted" in status.out, status.out
        card = ConnectOptions(version="0", platform="test", token=gateway.token)
        with pytest.raises(ConnectionLost, match="another certificate"):
            async with connect(f"wss://127.0.0.1:{gateway.port}", card, pinned="0" * 64):
                pass
        with pytest.raises(ConnectionLost):  # plainly it says nothing
            async with connect(f"ws://127.0.0.1:{gateway.port}", card):
                pass
    key = openclaw_home.state / "tls" / "gateway-key.pem"
    assert key.stat().st_mode & 0o077 == 0


@pytest.mark.anyio
async def test_files_of_ones_own_are_shown_to_clients_that_trust_them(
    openclaw_home: TemporaryHome, tmp_path: Path
) -> None:
    settings = made(tmp_path)
    openclaw_home.configure(
        {"gateway": {"tls": {"enabled": True, "certPath": settings.cert_path, "keyPath": settings.key_path}}}
    )
    with GatewayProcess(openclaw_home) as gateway:
        trusting = ssl.create_default_context(cafile=settings.cert_path)
        async with asyncio.timeout(60), websocket(f"wss://127.0.0.1:{gateway.port}", ssl=trusting) as socket:
            assert "connect.challenge" in str(await socket.recv())
        async with gateway.client() as client:
            await client.call("health")


def test_what_was_made_is_kept_until_it_nears_its_end(tmp_path: Path) -> None:
    settings = TlsSettings(enabled=True)
    first = load_certificate(settings, tmp_path, ("localhost", "127.0.0.1"), NOW)
    again = load_certificate(settings, tmp_path, ("localhost", "127.0.0.1"), NOW + 700 * DAY)
    renewed = load_certificate(settings, tmp_path, ("localhost", "127.0.0.1"), NOW + 800 * DAY)
    assert first and again and renewed
    assert first.fingerprint == again.fingerprint != renewed.fingerprint


def test_no_encryption_unless_it_is_asked_for(tmp_path: Path) -> None:
    assert load_certificate(TlsSettings(), tmp_path, (), NOW) is None
    assert list(tmp_path.iterdir()) == []


def refusal(settings: TlsSettings, state: Path) -> str:
    with pytest.raises(ConfigError) as refused:
        load_certificate(settings, state, ("localhost",), NOW)
    return refused.value.message


def test_files_that_clients_would_refuse_are_refused_first(tmp_path: Path) -> None:
    assert "expired on" in refusal(made(tmp_path, until=NOW - timedelta(hours=1)), tmp_path)
    assert "not valid before" in refusal(made(tmp_path, since=NOW + DAY), tmp_path)
    assert "does not belong to" in refusal(made(tmp_path, key=ec.generate_private_key(ec.SECP256R1())), tmp_path)
    assert "protected by a password" in refusal(made(tmp_path, seal=BestAvailableEncryption(b"x")), tmp_path)
    good = made(tmp_path)
    (tmp_path / "key.pem").write_text("nonsense")
    assert "no private key" in refusal(good, tmp_path)
    (tmp_path / "key.pem").unlink()
    assert "cannot read" in refusal(good, tmp_path)
    (tmp_path / "cert.pem").write_text("nonsense")
    assert "no certificate in PEM form" in refusal(good, tmp_path)
    (tmp_path / "cert.pem").unlink()
    assert "cannot read" in refusal(good, tmp_path)


def test_half_a_setting_is_named(tmp_path: Path) -> None:
    assert "gateway.tls.keyPath" in refusal(TlsSettings(enabled=True, cert_path="/x"), tmp_path)
    assert "gateway.tls.certPath" in refusal(TlsSettings(enabled=True, key_path="/x"), tmp_path)
    assert "autoGenerate" in refusal(TlsSettings(enabled=True, auto_generate=False), tmp_path)


def test_a_gateway_with_a_bad_certificate_does_not_start(openclaw_home: TemporaryHome, tmp_path: Path) -> None:
    settings = made(tmp_path, until=NOW - timedelta(hours=1))
    openclaw_home.configure(
        {"gateway": {"tls": {"enabled": True, "certPath": settings.cert_path, "keyPath": settings.key_path}}}
    )
    done = typed(openclaw_home)("gateway", "run", "--port", "0")
    assert done.code != 0 and "expired on" in done.err and "Traceback" not in done.err
    assert running_gateway(openclaw_home.state) is None


def test_the_doctor_looks_at_the_certificate(openclaw_home: TemporaryHome, tmp_path: Path) -> None:
    for until, said in ((NOW - timedelta(hours=1), "expired on"), (NOW + 10 * DAY, "expires on"), (NOW + 90 * DAY, "")):
        settings = made(tmp_path, until=until)
        openclaw_home.configure(
            {"gateway": {"tls": {"enabled": True, "certPath": settings.cert_path, "keyPath": settings.key_path}}}
        )
        told = typed(openclaw_home)("doctor").out
        assert said in told and ("certificate" in told) is bool(said)
