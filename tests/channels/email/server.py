"""A mailbox on loopback with faults on demand: IMAP with IDLE, and SMTP."""

import base64
import contextlib
import re
import socketserver
import threading
import time
from email import message_from_bytes
from email.message import EmailMessage, Message
from email.policy import default
from types import TracebackType
from typing import Any

ADDRESS, PASSWORD = "claw@claw.test", "correct horse"
ADA, EVE = "ada@ada.test", "eve@eve.test"
AUTHSERV = "mx.claw.test"
PATIENCE = 90.0


def mail(text: str, sender: str = ADA, *, verified: bool = True, files: Any = (), **headers: str) -> bytes:
    """A mail as our own server hands it out; a name with _ stands for a header with -."""
    made = EmailMessage()
    domain = sender.rpartition("@")[2].rstrip(">")
    if verified:
        made["Authentication-Results"] = f"{AUTHSERV}; dmarc=pass (p=reject) header.from={domain}; spf=pass"
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    for name, value in {
        "From": sender,
        "To": ADDRESS,
        "Subject": "Hello",
        "Message-ID": f"<{time.monotonic_ns()}@{domain}>",
        **named,
    }.items():
        if value:
            made[name] = value
    made.set_content(text)
    for name, mime, content in files:
        made.add_attachment(content, *mime.split("/"), filename=name)
    return made.as_bytes()


class MailboxServer:
    """`with MailboxServer() as server`: people write with `says`, what was sent to them is in `sent`."""

    def __init__(self, *, idle: bool = True) -> None:
        self.idle = idle
        self.validity = 7
        self.mails: dict[int, bytes] = {}
        self.next_uid = 1
        self.sent: list[Message[str, str]] = []
        self.withheld: set[int] = set()
        """Mails that the server lists and does not hand out."""
        self.faults: list[str] = []
        """What the next mails that are sent meet: `before`, `after`, or a whole answer to DATA."""
        self.commands: list[str] = []
        self.changed = threading.Condition()
        self._ids: set[str] = set()
        self._imap = _Server(("127.0.0.1", 0), _imap_handler(self))
        self._smtp = _Server(("127.0.0.1", 0), _smtp_handler(self))
        self._threads = [threading.Thread(target=each.serve_forever, args=(0.05,)) for each in (self._imap, self._smtp)]

    def __enter__(self) -> "MailboxServer":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in (self._imap, self._smtp):
            server.shutdown()
            server.server_close()
        for thread in self._threads:
            thread.join()

    @property
    def section(self) -> dict[str, Any]:
        return {
            "address": ADDRESS,
            "password": PASSWORD,
            "imap": f"imap://127.0.0.1:{self._imap.server_address[1]}",
            "smtp": f"smtp://127.0.0.1:{self._smtp.server_address[1]}",
            "senderAuth": {"trustedAuthservIds": [AUTHSERV]},
        }

    def says(self, text: str, sender: str = ADA, **more: Any) -> int:
        return self.receives(mail(text, sender, **more))

    def receives(self, raw: bytes) -> int:
        with self.changed:
            uid, self.next_uid = self.next_uid, self.next_uid + 1
            self.mails[uid] = raw.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
            self.changed.notify_all()
        return uid

    def takes(self, raw: bytes) -> None:
        """A mail that was sent; one that was sent before is not shown again, as Gmail does."""
        found = message_from_bytes(raw, policy=default)
        with self.changed:
            if found["Message-ID"] not in self._ids:
                self._ids.add(str(found["Message-ID"]))
                self.sent.append(found)
            self.changed.notify_all()

    def texts(self) -> list[str]:
        return [text_of(each) for each in list(self.sent)]

    def hears(self, count: int) -> "list[Message[str, str]]":
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.sent) >= count, PATIENCE), f"{len(self.sent)} mails"
            return list(self.sent)

    def waits(self) -> bool:
        """Somebody listens, and has a place to go on from."""
        return any(each.startswith(("IDLE", "NOOP")) for each in list(self.commands))

    def listened(self) -> None:
        with self.changed:
            assert self.changed.wait_for(self.waits, PATIENCE), "nobody listens"


def text_of(found: Any) -> str:
    return str(found.get_body(("plain",)).get_content()).replace("\r\n", "\n").rstrip("\n")


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


def _imap_handler(box: MailboxServer) -> Any:
    class Handler(socketserver.StreamRequestHandler):
        def line(self, text: str) -> None:
            self.wfile.write(f"{text}\r\n".encode())

        def handle(self) -> None:
            with contextlib.suppress(OSError):
                self.talk()

        def talk(self) -> None:
            self.line("* OK ready")
            for raw in self.rfile:
                tag, _, command = raw.decode().strip().partition(" ")
                word = command.upper()
                with box.changed:
                    box.commands.append(word if "LOGIN" not in word else "LOGIN")
                    box.changed.notify_all()
                if word == "CAPABILITY":
                    self.line(f"* CAPABILITY IMAP4rev1 AUTH=PLAIN{' IDLE' if box.idle else ''}")
                elif word == "AUTHENTICATE PLAIN":
                    self.line("+ ")
                    given = base64.b64decode(self.rfile.readline()).decode().split("\0")
                    if given != ["", ADDRESS, PASSWORD]:
                        self.line(f"{tag} NO [AUTHENTICATIONFAILED] Invalid credentials")
                        continue
                elif word.startswith("EXAMINE"):
                    self.tell_count()
                    self.line(f"* OK [UIDVALIDITY {box.validity}] valid")
                    self.line(f"* OK [UIDNEXT {box.next_uid}] next")
                elif word.startswith("UID SEARCH"):
                    self.search(word)
                elif word.startswith("UID FETCH") and int(word.split()[2]) in box.withheld:
                    self.line(f"{tag} NO [SERVERBUG] Internal error")
                    continue
                elif word.startswith("UID FETCH"):
                    self.fetch(command)
                elif word == "IDLE":
                    self.wait_for_mail()
                elif word == "LOGOUT":
                    self.line("* BYE goodbye")
                self.line(f"{tag} OK done")

        def tell_count(self) -> None:
            self.known = len(box.mails)
            self.line(f"* {self.known} EXISTS")

        def search(self, word: str) -> None:
            found = list(box.mails)
            if since := re.search(r"UID (\d+):\*", word):
                # As a real server: the range includes the last mail, however it is written.
                found = [uid for uid in found if uid >= int(since[1])] or found[-1:]
            self.line("* SEARCH " + " ".join(map(str, found)))

        def fetch(self, command: str) -> None:
            asked = re.match(
                r"(?i)UID FETCH (\d+) \(UID (RFC822\.SIZE|BODY\.PEEK\[(.*)\](?:<(\d+)\.(\d+)>)?)\)", command
            )
            assert asked is not None, command
            uid = int(asked[1])
            if uid not in box.mails:
                return
            raw = box.mails[uid]
            if asked[2].upper() == "RFC822.SIZE":
                self.line(f"* 1 FETCH (UID {uid} RFC822.SIZE {len(raw)})")
                return
            if asked[3]:
                raw = part_of(raw, asked[3])
            if asked[4]:
                raw = raw[int(asked[4]) : int(asked[4]) + int(asked[5])]
            self.wfile.write(f"* 1 FETCH (UID {uid} BODY[] {{{len(raw)}}}\r\n".encode() + raw)
            self.line(")")

        def wait_for_mail(self) -> None:
            self.line("+ idling")
            ended = threading.Event()

            def tell() -> None:
                while not ended.is_set():
                    with box.changed:
                        box.changed.wait_for(lambda: len(box.mails) != self.known or ended.is_set(), 0.2)
                    if len(box.mails) != self.known and not ended.is_set():
                        with contextlib.suppress(OSError):  # the client is gone
                            self.tell_count()

            thread = threading.Thread(target=tell)
            thread.start()
            try:
                self.rfile.readline()
            finally:
                ended.set()
                thread.join()

    return Handler


def part_of(raw: bytes, section: str) -> bytes:
    """The content of a part, as it is in the mail."""
    found: Any = message_from_bytes(raw)
    for number in section.split("."):
        found = found.get_payload()[int(number) - 1] if found.is_multipart() else found
    return str(found.get_payload()).replace("\n", "\r\n").encode()


def _smtp_handler(box: MailboxServer) -> Any:
    class Handler(socketserver.StreamRequestHandler):
        def line(self, text: str) -> None:
            self.wfile.write(f"{text}\r\n".encode())

        def handle(self) -> None:
            with contextlib.suppress(OSError):
                self.talk()

        def talk(self) -> None:
            self.line("220 ready")
            while raw := self.rfile.readline():
                word = raw.decode().strip()
                match word.upper().split()[:1]:
                    case ["EHLO"]:
                        self.line("250-claw.test")
                        self.line("250 AUTH PLAIN")
                    case ["AUTH"]:
                        given = base64.b64decode(word.split()[2]).decode().split("\0")
                        self.line("235 ok" if given[1:] == [ADDRESS, PASSWORD] else "535 5.7.8 wrong")
                    case ["RCPT"] if "nobody@" in word:
                        self.line("550 5.1.1 there is no such person")
                    case ["DATA"]:
                        if not self.data():
                            return
                    case ["QUIT"]:
                        self.line("221 bye")
                        return
                    case _:
                        self.line("250 ok")

        def data(self) -> bool:
            self.line("354 go on")
            lines = []
            while (line := self.rfile.readline()) not in (b".\r\n", b""):
                lines.append(line.removeprefix(b".") if line.startswith(b"..") else line)
            fault = box.faults.pop(0) if box.faults else ""
            if fault == "before":
                return False
            if fault in ("", "after"):
                box.takes(b"".join(lines))
            if fault == "after":
                return False
            self.line(fault or "250 queued")
            return True

    return Handler
