"""Computes the first-event and idle timeouts of a model's stream. Pure."""

from typing import Literal

from msgspec import Struct

from openclaw.core.provider import Model
from openclaw.models.registry import host_of, is_private_address

CLOUD = 120.0
CLOUD_CRON = 60.0
SELF_HOSTED = 300.0
NEVER = 0.0

_SELF_HOSTED_IDS = ("ollama", "lmstudio", "vllm", "sglang", "llama-cpp")
ModelLocation = Literal["local", "self-hosted", "cloud"]


class StreamTimeouts(Struct, frozen=True):
    """Seconds until the first event, and between events; 0 waits for ever."""

    first: float
    idle: float


def locate_model(model: Model) -> ModelLocation:
    """Where a model runs: the choice between the timeouts above."""
    if is_private_address(model.base_url) and not model.id.endswith(":cloud"):
        return "local"
    provider = model.provider
    if any(provider == name or provider.startswith(name + "-") for name in _SELF_HOSTED_IDS):
        return "self-hosted"
    return "self-hosted" if host_of(model.base_url) == "host.docker.internal" else "cloud"


def idle_limit(
    model: Model, *, run_timeout: float | None = None, agent_timeout: float | None = None, cron: bool = False
) -> float:
    """The idle limit; `run_timeout` and `agent_timeout` only when someone set them (0 = unlimited)."""
    place = locate_model(model)
    if model.timeout_seconds:
        return min(model.timeout_seconds, run_timeout or agent_timeout or model.timeout_seconds)
    budget = run_timeout or agent_timeout
    if budget:
        if cron and run_timeout:
            return min(budget, CLOUD_CRON) if place == "cloud" else budget
        return budget if place == "local" else min(budget, SELF_HOSTED if place == "self-hosted" else CLOUD)
    return {"local": NEVER, "self-hosted": SELF_HOSTED, "cloud": CLOUD}[place]


def stream_timeouts(
    model: Model, *, run_timeout: float | None = None, agent_timeout: float | None = None, cron: bool = False
) -> StreamTimeouts:
    """The timeouts for `model`. A local model may load for minutes before its first event, but not for ever."""
    idle = idle_limit(model, run_timeout=run_timeout, agent_timeout=agent_timeout, cron=cron)
    if model.timeout_seconds:
        return StreamTimeouts(idle, idle)
    first = CLOUD if locate_model(model) == "cloud" else SELF_HOSTED
    return StreamTimeouts(min(first, idle or first), idle)
