"""Ranks models by how well they withstand orders in what they read, judging by their names. Pure."""

import re
from typing import Literal

from openclaw.core.text import compile_lazily

Tier = Literal["small", "standard", "frontier"]
TIERS: tuple[Tier, ...] = ("small", "standard", "frontier")

_SMALL = compile_lazily(
    r"(?<![a-z])(?:mini|nano|tiny|small|lite|flash|haiku|instant|turbo|micro|phi|gemma|tinyllama|smollm)(?![a-z])"
    r"|(?<![\d.])(?:[0-9]|1[0-4])(?:\.\d)?b(?![a-z0-9])",
    re.IGNORECASE,
)
_FRONTIER = compile_lazily(
    r"opus|sonnet|gpt-5(?!\d)|gpt-4\.[15]|(?<![a-z])o[13](?![a-z0-9])|gemini-[23][\d.]*-pro|grok-[34]|deepseek-(?:r1|v3)"
    r"|qwen3?-?max|mistral-large|(?<!\d)(?:235|405|480|671)b",
    re.IGNORECASE,
)


def tier_of(model: str) -> Tier:
    """The tier of `provider/model`; what nobody knows is standard."""
    name = model.rpartition("/")[2]
    if _SMALL.search(name):
        return "small"
    return "frontier" if _FRONTIER.search(name) else "standard"


def is_below(tier: Tier, floor: Tier) -> bool:
    return TIERS.index(tier) < TIERS.index(floor)
