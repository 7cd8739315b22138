"""A plugin's channel as a platform: it listens and sends; what it hears is on record before it is asked for more."""

from contextlib import aclosing

from openclaw.core.channel import (
    Address,
    Channel,
    ChannelFacts,
    MessageRefused,
    Outbound,
    Receipt,
    ShowsTyping,
    TakesEvents,
    TryLater,
    Unsure,
)
from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.plugins.process import PluginFailed

TYPING_EVERY = 5.0
FINAL = ("InvalidRequest", "NotFound")


class PluginChannel:
    """Adapts `Channel` to `Platform`."""

    account = "default"

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.name = channel.name
        self.facts = ChannelFacts(
            media_bytes=50_000_000, typing_every=TYPING_EVERY if isinstance(channel, ShowsTyping) else 0.0
        )

    async def run(self, cursor: str | None, inbox: TakesEvents) -> None:
        inbox.connected()
        async with aclosing(self.channel.listen()) as heard:  # type: ignore[type-var]
            async for message in heard:
                await inbox.take([message], None)

    async def send(self, message: Outbound) -> Receipt:
        try:
            return await self.channel.send(message)
        except PluginFailed as error:
            if error.kind in FINAL:
                raise MessageRefused(error.message) from error
            # Without an exception of its own its process ended or hung: the message may have left before.
            raise (TryLater if error.kind else Unsure)(error.message) from error
        except (InvalidRequest, NotFound) as error:
            raise MessageRefused(error.message) from error

    async def typing(self, to: Address) -> None:
        if isinstance(self.channel, ShowsTyping):
            await self.channel.typing(to)

    async def close(self) -> None:
        """Does nothing: the plugin ends with its process."""
