"""What a call will cost, and what it cost when nobody said. Pure; money is US dollars."""

from msgspec import Struct

from openclaw.core.messages import Usage
from openclaw.core.provider import Price
from openclaw.core.reply import cost_of

IMAGE_TOKENS = 1_600
EXPECTED_OUTPUT = 1_000
"""Tokens of an answer, when all that is known is that it may be longer."""


class Size(Struct, frozen=True, kw_only=True):
    """A request as far as its cost goes."""

    text_bytes: int
    images: int = 0
    output_limit: int | None = None
    window: int = 200_000
    """Tokens the model can see at once: no request is longer, and no answer."""


class Estimate(Struct, frozen=True):
    """What a call probably costs, and what it cannot cost more than."""

    likely: float
    worst: float


def prompt_tokens(size: Size) -> int:
    return min(-(-size.text_bytes // 4) + size.images * IMAGE_TOKENS, size.window)


def estimate(size: Size, price: Price | None) -> Estimate | None:
    """The cost of a call before it is made; None when the price is not known.

    No token is shorter than a byte, and nothing larger than the window is accepted: that is the worst case.
    """
    if price is None:
        return None
    limit = size.output_limit or size.window
    likely = prompt_tokens(size) * price.input + min(limit, EXPECTED_OUTPUT) * price.output
    dearest = max(price.input, price.cache_read, price.cache_write)
    most = min(size.text_bytes, size.window) if not size.images else size.window
    return Estimate(likely / 1e6, max(likely, most * dearest + limit * price.output) / 1e6)


def estimate_usage(size: Size, spoken_chars: int, price: Price | None) -> Usage:
    """The usage of a call that was cut off before its provider counted it."""
    tokens_in, tokens_out = prompt_tokens(size), -(-spoken_chars // 4)
    usage = Usage(input=tokens_in, output=tokens_out, total_tokens=tokens_in + tokens_out)
    return Usage(usage.input, usage.output, 0, 0, usage.total_tokens, cost_of(usage, price))
