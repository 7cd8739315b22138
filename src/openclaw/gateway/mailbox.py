"""A look into a mailbox over IMAP: how many letters are unread, and whether new ones came. Nothing is opened."""

import imaplib
import re
import ssl

from msgspec import Struct

from openclaw.core.errors import Unavailable
from openclaw.cron.watch import MailWatch

SECONDS = 30.0


class Letters(Struct, frozen=True):
    """What the server says of a mailbox."""

    following: int
    """The number the next letter will get: it grows with every letter, and reading changes nothing about it."""
    unread: int


def status(watch: MailWatch, password: str) -> Letters:
    """The mailbox as it is now; raises `Unavailable`, which never repeats what we sent."""
    try:
        with _connected(watch) as server:
            server.login(watch.user, password)
            _, found = server.status(f'"{watch.mailbox}"', "(UIDNEXT UNSEEN)")
    except (OSError, imaplib.IMAP4.error) as error:
        raise Unavailable(f"no answer from {watch.host} ({type(error).__name__})") from error
    text = b" ".join(part for part in found if isinstance(part, bytes)).decode(errors="replace")
    numbers = dict(re.findall(r"(UIDNEXT|UNSEEN) (\d+)", text))
    if len(numbers) < 2:
        raise Unavailable(f"{watch.host} has no mailbox {watch.mailbox}")
    return Letters(int(numbers["UIDNEXT"]), int(numbers["UNSEEN"]))


def _connected(watch: MailWatch) -> imaplib.IMAP4:
    if watch.tls:
        return imaplib.IMAP4_SSL(watch.host, watch.port, ssl_context=ssl.create_default_context(), timeout=SECONDS)
    return imaplib.IMAP4(watch.host, watch.port, timeout=SECONDS)
