"""A chat platform in memory that can edit, delete and show buttons: what people see is in `chat`."""

import asyncio
from typing import Any

from openclaw.core.channel import Action, Address, ChannelFacts, Inbound, Outbound, Receipt, TakesEvents, Unsure

FACTS: dict[str, Any] = {"actions": ("send", "edit", "delete"), "edit_every": 1.0, "buttons": True}


class Slate:
    """One account. The next calls of an action meet the exceptions that are prepared for it."""

    name, account = "slate", "default"

    def __init__(self, **facts: Any) -> None:
        self.facts = ChannelFacts(**{**FACTS, **facts})
        self.chat: dict[str, Outbound] = {}
        """The messages that are there now, by id, as they look."""
        self.calls: list[Outbound] = []
        self.faults: dict[Action, list[Exception]] = {}
        self.cuts = 0
        """So many of the next messages arrive, but nobody learns of it."""
        self.answers: list[tuple[str, str]] = []
        """What people who pressed a button were told."""
        self.gate: asyncio.Event | None = None
        """Holds every call until it is set."""
        self._keys: dict[str, str] = {}
        self._count = 0

    def texts(self, to: str = "ada") -> list[str]:
        return [message.text for message in self.chat.values() if message.to.to == to]

    async def run(self, cursor: str | None, inbox: TakesEvents) -> None:
        await asyncio.Event().wait()

    async def send(self, message: Outbound) -> Receipt:
        self.calls.append(message)
        if self.gate is not None:
            await self.gate.wait()
        if self.faults.get(message.action):
            raise self.faults[message.action].pop(0)
        if message.action == "send":
            if self.facts.idempotent and message.key in self._keys:
                return Receipt(id=self._keys[message.key])
            self._count += 1
            name = self._keys[message.key] = f"m{self._count}"
            self.chat[name] = message
            if self.cuts:
                self.cuts -= 1
                raise Unsure("cut")
            return Receipt(id=name)
        assert message.about in self.chat
        if message.action == "delete":
            del self.chat[message.about]
        else:
            self.chat[message.about] = message
        return Receipt(id=message.about)

    async def typing(self, to: Address) -> None:
        self.calls.append(Outbound(to=to, text="typing"))

    async def answer_press(self, event: Inbound, text: str) -> None:
        self.answers.append((event.sender, text))

    async def close(self) -> None: ...
