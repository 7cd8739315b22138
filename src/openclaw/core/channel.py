"""The channel seam: a place people talk."""

from collections.abc import AsyncIterator
from typing import Protocol, runtime_checkable

from openclaw.core.chat import Address, Inbound, Outbound, Receipt


class Channel(Protocol):
    """A place people talk. Listening ends when the task is cancelled."""

    @property
    def name(self) -> str: ...

    def listen(self) -> AsyncIterator[Inbound]: ...

    async def send(self, message: Outbound) -> Receipt: ...


@runtime_checkable
class ShowsTyping(Protocol):
    async def typing(self, to: Address) -> None: ...
