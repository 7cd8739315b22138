"""An IRC server on loopback with faults on demand: SASL, channels, private messages, account tags."""

import base64
import socketserver
import threading
from contextlib import suppress
from types import TracebackType
from typing import Any

NICK, PASSWORD = "claw", "correct horse"
PATIENCE = 90.0


class IrcTestServer:
    """`with IrcTestServer() as server`: people write with `says`, what the nick said is in `sent`."""

    def __init__(self, *, sasl: bool = True) -> None:
        self.sasl = sasl
        self.sent: list[tuple[str, str]] = []
        self.lines: list[str] = []
        self.faults: list[str] = []
        """What the next messages meet: `before`, `after`, or a numeric and its words."""
        self.taken: set[str] = set()
        """Nicks that somebody has."""
        self.connections: list[Any] = []
        self.changed = threading.Condition()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> "IrcTestServer":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def address(self) -> str:
        return f"irc://127.0.0.1:{self._server.server_address[1]}"

    def says(self, text: str, sender: str = "ada!~ada@host.test", to: str = "", tags: str = "") -> None:
        for each in list(self.connections):
            each.line(f"{f'@{tags} ' if tags else ''}:{sender} PRIVMSG {to or each.nick} :{text}")

    def cut(self) -> None:
        for each in list(self.connections):
            with suppress(OSError):
                each.request.shutdown(2)

    def texts(self) -> list[str]:
        return [text for _, text in list(self.sent)]

    def hears(self, count: int) -> list[tuple[str, str]]:
        self.until(lambda: len(self.sent) >= count)
        return list(self.sent)

    def until(self, true: Any) -> None:
        with self.changed:
            assert self.changed.wait_for(true, PATIENCE), self.lines[-20:]

    def note(self, line: str) -> None:
        with self.changed:
            self.lines.append(line)
            self.changed.notify_all()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


def _handler(server: IrcTestServer) -> Any:
    class Handler(socketserver.StreamRequestHandler):
        nick = ""

        def line(self, text: str) -> None:
            with suppress(OSError):
                self.wfile.write(f"{text}\r\n".encode())

        def reply(self, number: str, *words: str) -> None:
            self.line(f":irc.test {number} {self.nick or '*'} {' '.join(words)}")

        def handle(self) -> None:
            try:
                with suppress(OSError):
                    self.talk()
            finally:
                if self in server.connections:
                    server.connections.remove(self)

        def talk(self) -> None:
            for raw in self.rfile:
                word, _, rest = raw.decode().strip().partition(" ")
                server.note(f"{word} {rest}" if word != "AUTHENTICATE" else word)
                match word:
                    case "CAP" if rest.startswith("LS"):
                        self.line(f":irc.test CAP * LS :account-tag message-tags{' sasl=PLAIN' if server.sasl else ''}")
                    case "CAP" if rest.startswith("REQ"):
                        self.line(f":irc.test CAP * ACK {rest.partition(' ')[2]}")
                    case "CAP":
                        self.welcome()
                    case "AUTHENTICATE" if rest == "PLAIN":
                        self.line("AUTHENTICATE +")
                    case "AUTHENTICATE":
                        good = base64.b64decode(rest).decode().split("\0")[1:] == [NICK, PASSWORD]
                        self.reply("903" if good else "904", ":SASL")
                    case "NICK" if rest in server.taken:
                        self.reply("433", rest, ":Nickname is already in use.")
                    case "NICK":
                        self.nick = rest
                        if any(each.startswith("CAP END") for each in server.lines[-3:]):
                            self.welcome()
                    case "JOIN":
                        self.line(f":{self.nick}!openclaw@127.0.0.1 JOIN {rest}")
                    case "PING":
                        self.line(f":irc.test PONG irc.test {rest}")
                    case "PRIVMSG":
                        if not self.message(rest):
                            return
                    case "QUIT":
                        return

        def welcome(self) -> None:
            if self.nick and self not in server.connections:
                self.line("PING :are you there")
                self.reply("001", ":Welcome")
                server.connections.append(self)
                server.note("welcomed")

        def message(self, rest: str) -> bool:
            target, _, text = rest.partition(" :")
            fault = server.faults.pop(0) if server.faults else ""
            if fault == "before":
                self.request.shutdown(2)
                return False
            if fault and fault != "after":
                number, _, words = fault.partition(" ")
                self.reply(number, target, words)
                return True
            if target == "nobody":
                self.reply("401", target, ":No such nick/channel")
                return True
            # As others receive it.
            whole = f":{self.nick}!openclaw@127.0.0.1 PRIVMSG {target} :{text}\r\n"
            assert len(whole.encode()) <= 512, len(whole.encode())
            with server.changed:
                server.sent.append((target, text))
                server.changed.notify_all()
            if fault == "after":
                self.request.shutdown(2)
                return False
            return True

    return Handler
