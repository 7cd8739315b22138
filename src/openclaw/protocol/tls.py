"""Encryption towards a gateway: the system's trust store decides, or the certificate is known by its digest."""

import hashlib
import hmac
import socket
import ssl

from openclaw.protocol.connect_request import ConnectionLost


def client_context(pinned: str) -> ssl.SSLContext:
    """`pinned` is the SHA-256 of the one certificate that counts, in hexadecimal; empty for any that is trusted."""
    context = ssl.create_default_context()
    if pinned:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def check_pin(certificate: bytes | None, pinned: str) -> None:
    """Compares the digest of the certificate that was shown, before any secret is sent."""
    shown = hashlib.sha256(certificate or b"").hexdigest()
    if pinned and not hmac.compare_digest(shown, pinned.replace(":", "").lower()):
        raise ConnectionLost("the gateway shows another certificate than expected: something else answers there")


class PinnedTls:
    """Encrypts a blocking connection."""

    def __init__(self, pinned: str) -> None:
        self._pinned = pinned

    def wrap(self, connection: socket.socket, host: str) -> socket.socket:
        wrapped = client_context(self._pinned).wrap_socket(connection, server_hostname=host)
        check_pin(wrapped.getpeercert(binary_form=True), self._pinned)
        return wrapped
