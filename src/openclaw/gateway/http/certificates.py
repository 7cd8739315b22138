"""The gateway's TLS certificate: loaded from files and checked, or self-signed for this installation.

Our own commands recognise it by its fingerprint in the gateway's lock file, so it may be signed by anyone or by itself.
Imported only with TLS on: the cryptography library is slow to load.
"""

import contextlib
import hashlib
import ssl
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from msgspec import Struct

from openclaw.config.settings import TlsSettings
from openclaw.core.errors import ConfigError, StateError
from openclaw.storage.atomic import private_directory, replace_file

FOLDER = "tls"
GOOD_FOR = timedelta(days=825)
SOON = timedelta(days=30)


class LoadedCertificate(Struct, frozen=True):
    """A certificate ready for use."""

    context: ssl.SSLContext
    fingerprint: str
    """SHA-256 of the certificate, in hexadecimal."""
    expires: datetime


def load_certificate(
    settings: TlsSettings, state: Path, names: tuple[str, ...], now: datetime
) -> LoadedCertificate | None:
    """The certificate of the gateway; None without TLS. Refuses files that clients would refuse."""
    if not settings.enabled:
        return None
    if bool(settings.cert_path) != bool(settings.key_path):
        missing = "keyPath" if settings.cert_path else "certPath"
        raise ConfigError(f"gateway.tls needs both certPath and keyPath: set gateway.tls.{missing}", path="gateway.tls")
    if settings.cert_path and settings.key_path:
        return _loaded(Path(settings.cert_path).expanduser(), Path(settings.key_path).expanduser(), now)
    cert, key = state / FOLDER / "gateway-cert.pem", state / FOLDER / "gateway-key.pem"
    if not settings.auto_generate:
        raise ConfigError(
            "gateway.tls is on, but there is no certificate: set gateway.tls.certPath and gateway.tls.keyPath, or"
            " gateway.tls.autoGenerate",
            path="gateway.tls.certPath",
        )
    if not _still_good(cert, key, now):
        _make(cert, key, names, now)
    return _loaded(cert, key, now)


def _loaded(cert: Path, key: Path, now: datetime) -> LoadedCertificate:
    found = _read(cert)
    if now >= found.not_valid_after_utc:
        raise ConfigError(
            f"the certificate in {cert} expired on {found.not_valid_after_utc:%Y-%m-%d}: renew it, then run openclaw"
            " gateway restart",
            path="gateway.tls.certPath",
        )
    if now < found.not_valid_before_utc:
        raise ConfigError(
            f"the certificate in {cert} is not valid before {found.not_valid_before_utc:%Y-%m-%d %H:%M} UTC: check the"
            " clock of this machine",
            path="gateway.tls.certPath",
        )
    _bytes(key, "gateway.tls.keyPath")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # Nobody can be asked for a passphrase: a protected key is refused.
        context.load_cert_chain(cert, key, password="")
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(_why(error, cert, key), path="gateway.tls.keyPath") from error
    print_ = hashlib.sha256(found.public_bytes(Encoding.DER)).hexdigest()
    return LoadedCertificate(context, print_, found.not_valid_after_utc)


def _why(error: Exception, cert: Path, key: Path) -> str:
    if "MISMATCH" in str(error).upper():
        return f"the key in {key} does not belong to the certificate in {cert}: correct gateway.tls.keyPath"
    if "PROTECTED" in (text := key.read_text(errors="replace")) or "ENCRYPTED" in text:
        return f"the key in {key} is protected by a password: the gateway needs one without (openssl pkey -in … -out …)"
    return f"{key} holds no private key that can be used ({error}): correct gateway.tls.keyPath"


def _read(cert: Path) -> x509.Certificate:
    try:
        # The first is ours, the others lead to its authority.
        return x509.load_pem_x509_certificates(_bytes(cert, "gateway.tls.certPath"))[0]
    except ValueError as error:
        raise ConfigError(
            f"{cert} holds no certificate in PEM form: correct gateway.tls.certPath", path="gateway.tls.certPath"
        ) from error


def _bytes(path: Path, setting: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path} ({error.strerror}): correct {setting}", path=setting) from error


def _still_good(cert: Path, key: Path, now: datetime) -> bool:
    """Whether a certificate we made ourselves is still valid."""
    with contextlib.suppress(ConfigError):
        return key.exists() and _loaded(cert, key, now).expires - now > SOON
    return False


def _make(cert: Path, key: Path, names: tuple[str, ...], now: datetime) -> None:
    """Makes a self-signed certificate for the names and addresses of this machine."""

    def general(name: str) -> x509.GeneralName:
        try:
            return x509.IPAddress(ip_address(name))
        except ValueError:
            return x509.DNSName(name)

    private = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "OpenClaw gateway")])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + GOOD_FOR)
        .add_extension(x509.SubjectAlternativeName([general(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(private, hashes.SHA256())
    )
    try:
        private_directory(cert.parent)
        replace_file(key, private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        replace_file(cert, made.public_bytes(Encoding.PEM))
    except OSError as error:
        raise StateError(f"cannot keep a certificate in {cert.parent}: {error.strerror}") from error
