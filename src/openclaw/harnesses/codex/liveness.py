"""How long a turn may be silent before it is given up; only decides."""

from msgspec import Struct

IDLE = 60.0
"""Nothing happens and nothing is under way."""
AFTER_ANSWER = 10.0
"""The final message is there, and only the end of the turn is missing."""
AFTER_PROGRESS = 300.0
"""A tool or a thought has ended: the model reads it."""
UNDER_WAY = 1_800.0
"""Something is under way, such as a message that is being written."""


class TurnProgress(Struct, kw_only=True):
    """What a turn does now, as far as its frames tell."""

    since: float
    """When it last got on."""
    asks_us: bool = False
    """It waits for a tool of ours or for a person."""
    under_way: int = 0
    """Items that have begun and not ended."""
    answered: bool = False
    """Its last item was a message, complete."""
    acted: bool = False
    """Its last item was a tool call or a thought."""


def patience(turn: TurnProgress, least: float = IDLE) -> float | None:
    """How many seconds of silence are borne now, None when it is not its turn to speak."""
    if turn.asks_us:
        return None
    if turn.under_way:
        return UNDER_WAY
    if turn.answered:
        return AFTER_ANSWER
    return max(AFTER_PROGRESS, least) if turn.acted else max(IDLE, least)
