"""What each Claude model takes: how it is told to think, and what else that rules out."""

import re
from typing import Any

from openclaw.core.messages import Assistant, Message, Thinking, User
from openclaw.core.provider import Model, ModelRequest

# The API wants a limit; these are for models whose own is not known.
DEFAULT_OUTPUT = 8_192
DEFAULT_THINKING_OUTPUT = 32_000
LEAST_BUDGET = 1_024
_BUDGETS = {"minimal": 1_024, "low": 4_096, "medium": 10_240, "high": 20_480, "xhigh": 32_768, "max": 49_152}
_EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh", "max": "max"}


def version_of(model_id: str) -> tuple[int, int] | None:
    """Major and minor of a Claude model, whichever side of the family name they stand on."""
    name = model_id.rpartition("/")[2].lower().replace(".", "-")
    found = re.search(r"claude-(?:[a-z]+-)?(\d{1,2})(?:-(\d{1,2})(?!\d))?", name)
    if found:
        return int(found[1]), int(found[2] or 0)
    return (5, 0) if "mythos" in name or "fable" in name else None


def adapts(model: Model) -> bool:
    """Whether the model decides itself how much to think, given an effort; older ones take a budget."""
    version = version_of(model.id)
    return version is not None and version >= (4, 6)


def default_output(model: Model) -> int:
    return DEFAULT_THINKING_OUTPUT if model.reasoning else DEFAULT_OUTPUT


def takes_temperature(model: Model, *, thinks: bool) -> bool:
    if model.compat.supports_temperature is not None:
        return model.compat.supports_temperature
    version = version_of(model.id)
    return not thinks and (version is None or version < (4, 7))


def thinking(request: ModelRequest, limit: int, messages: tuple[Message, ...]) -> dict[str, Any]:
    model, level = request.model, request.thinking
    if not model.reasoning:
        return {}
    effort = (model.compat.reasoning_effort_map or {}).get(level)
    if adapts(model):
        if level == "off":
            return _thinking_off(model)
        if effort is None and level != "adaptive":
            newest = (version_of(model.id) or (0, 0)) >= (4, 7)
            effort = "high" if level == "xhigh" and not newest else _EFFORTS[level]
        adaptive = {"thinking": {"type": "adaptive", "display": "summarized"}}
        return adaptive | ({"output_config": {"effort": effort}} if effort else {})
    if level == "off" or _began_without_thinking(messages):
        return {}
    budget = _BUDGETS.get(level, _BUDGETS["medium"])
    most = min(limit + budget, model.max_tokens or max(limit, DEFAULT_THINKING_OUTPUT))
    budget = min(budget, most - LEAST_BUDGET)
    if budget < LEAST_BUDGET:
        return {}
    return {"max_tokens": most, "thinking": {"type": "enabled", "budget_tokens": budget}}


def _thinking_off(model: Model) -> dict[str, Any]:
    """Models from 5 on think unless told not to, and two families cannot be told."""
    always = re.search("fable|mythos", model.id)
    told = (version_of(model.id) or (0, 0)) >= (5, 0) and not always
    return {"thinking": {"type": "disabled"}} if told else {}


def _began_without_thinking(messages: tuple[Message, ...]) -> bool:
    """Whether the turn that is going on has called tools without thinking first: it must go on like that."""
    for message in reversed(messages):
        if isinstance(message, Assistant):
            return bool(message.calls) and not any(isinstance(block, Thinking) for block in message.content)
        if isinstance(message, User):
            return False
    return False
