"""A channel: `inbox/<sender>--<name>.txt` is a message from that sender, and the answer lands in `outbox/`.

`inbox/<group>@<sender>--<name>.txt` was said in a group; it is meant for the assistant when it begins with `@bot`.

It shows all a channel has to do: yield what it hears, and forget it only when it is asked for more; hand over what it
is given; say so only when it is there.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from openclaw.plugin import Api, Inbound, InvalidRequest, Outbound, Receipt

MENTION = "@bot"


class Mailbox:
    """`Channel` over two directories."""

    name = "mailbox"

    def __init__(self, directory: Path, seconds: float) -> None:
        self._inbox = directory / "inbox"
        self._outbox = directory / "outbox"
        self._read = directory / "read"
        self._seconds = seconds
        self._sent = 1

    async def listen(self) -> AsyncIterator[Inbound]:
        for place in (self._inbox, self._outbox, self._read):
            place.mkdir(parents=True, exist_ok=True)
        while True:
            for path in sorted(self._inbox.glob("*--*.txt")):
                where, _, name = path.stem.partition("--")
                group, _, sender = where.rpartition("@")
                text = path.read_text(encoding="utf-8").strip()
                if text:
                    # Who may be heard is not the channel's business: it only says who spoke, where, and to whom.
                    yield Inbound(
                        id=name,
                        channel=self.name,
                        sender=sender,
                        text=text.removeprefix(MENTION).strip(),
                        group=group or None,
                        mentioned=text.startswith(MENTION),
                    )
                # We are asked for more when it is on record. Told again after a kill, it has the same id: heard once.
                path.rename(self._read / path.name)
            await asyncio.sleep(self._seconds)

    async def send(self, message: Outbound) -> Receipt:
        if "/" in message.to.to or message.to.to.startswith("."):
            raise InvalidRequest(f"{message.to.to!r} is not a sender of this mailbox")
        while (path := self._outbox / f"{message.to.to}--{self._sent:06}.txt").exists():
            self._sent += 1
        waiting = path.with_suffix(".part")
        waiting.write_text(message.text + "\n", encoding="utf-8")
        waiting.rename(path)
        return Receipt(id=path.name)


def register(api: Api) -> None:
    directory = Path(api.config.get("directory", api.state))
    api.channel(Mailbox(directory, float(api.config.get("seconds", 1.0))))
