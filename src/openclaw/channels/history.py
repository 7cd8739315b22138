"""What was said in groups since the assistant last spoke there; the next turn is told, as untrusted text."""

import msgspec

from openclaw.channels.inbox import chat_of
from openclaw.core.channel import Inbound
from openclaw.core.clock import Clock, millis
from openclaw.storage.database import Database, Transaction, transact

KEPT_MS = 30 * 86_400_000
MOST_CHARS = 1_000
"""So much of one message is kept."""


class GroupHistory:
    """The messages that nobody answered, by group and thread."""

    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock

    async def add(self, message: Inbound, limit: int) -> None:
        """Keeps a message; beyond `limit` the oldest of its conversation goes."""
        text = message.text[:MOST_CHARS]
        if not text.strip() and message.files:
            text = " ".join(f"<media:{file.kind}>" for file in message.files)
        if limit <= 0 or not text.strip():
            return
        kept = msgspec.structs.replace(message, text=text, files=(), quote=None)
        name = _names(message)

        async def append(transaction: Transaction) -> None:
            rows = await transaction.read(
                "SELECT position, body FROM group_history WHERE channel = :channel AND account = :account AND "
                "chat = :chat ORDER BY position",
                name,
            )
            if any(_decode(row["body"]).id == message.id for row in rows):
                return  # it was dealt with before, and the process was killed
            at = rows[-1]["position"] + 1 if rows else 1
            body = msgspec.json.encode(kept).decode()
            await transaction.write(
                "INSERT INTO group_history (channel, account, chat, position, body, at) VALUES (:channel, :account, "
                ":chat, :position, :body, :now)",
                {**name, "position": at, "body": body, "now": millis(self._clock)},
            )
            await transaction.write(
                "DELETE FROM group_history WHERE channel = :channel AND account = :account AND chat = :chat AND "
                "position <= :last",
                {**name, "last": at - limit},
            )

        await transact(self._db, append, f"history:{message.channel}:{name['chat']}")

    async def of(self, message: Inbound) -> list[Inbound]:
        """What was said in the conversation of `message` since the assistant was last asked there, in order."""
        rows = await self._db.look(
            "SELECT body FROM group_history WHERE channel = :channel AND account = :account AND chat = :chat "
            "ORDER BY position",
            _names(message),
        )
        return [_decode(row["body"]) for row in rows]

    async def told(self, message: Inbound) -> None:
        """The assistant was told all of it."""
        await self._db.write(
            "DELETE FROM group_history WHERE channel = :channel AND account = :account AND chat = :chat",
            _names(message),
        )

    async def forget_old(self) -> int:
        return await self._db.write(
            "DELETE FROM group_history WHERE at < :before", {"before": millis(self._clock) - KEPT_MS}
        )


def _names(message: Inbound) -> dict[str, str]:
    return {"channel": message.channel, "account": message.account, "chat": chat_of(message)}


def _decode(body: str) -> Inbound:
    return msgspec.json.decode(body, type=Inbound)
