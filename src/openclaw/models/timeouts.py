"""Computes the first-event and idle timeouts of a model's stream. Pure."""

from functools import lru_cache
from typing import Literal

from msgspec import Struct

from openclaw.models.registry import host_of, is_cloud_id, is_private_address

CLOUD = 120.0
SELF_HOSTED = 300.0
NEVER = 0.0

_SELF_HOSTED_IDS = ("ollama", "lmstudio", "vllm", "sglang", "llama-cpp")
ModelLocation = Literal["local", "self-hosted", "cloud"]
_IDLE: dict[ModelLocation, float] = {"local": NEVER, "self-hosted": SELF_HOSTED, "cloud": CLOUD}


class StreamTimeouts(Struct, frozen=True):
    """Seconds until the first event, and between events; 0 waits for ever."""

    first: float
    idle: float


def locate_model(provider: str, model_id: str, base_url: str) -> ModelLocation:
    """Where a model runs: the choice between the timeouts above."""
    if is_private_address(base_url) and not is_cloud_id(model_id):
        return "local"
    if any(provider == name or provider.startswith(name + "-") for name in _SELF_HOSTED_IDS):
        return "self-hosted"
    return "self-hosted" if host_of(base_url) == "host.docker.internal" else "cloud"


@lru_cache(maxsize=256)
def stream_timeouts(
    provider: str, model_id: str, base_url: str, timeout_seconds: float | None, run_timeout: float | None = None
) -> StreamTimeouts:
    """The timeouts for a model; `run_timeout` is the run's own limit, if it has one (0 = unlimited).

    A local model may load for minutes before its first event, but not for ever.
    """
    if timeout_seconds:
        idle = min(timeout_seconds, run_timeout or timeout_seconds)
        return StreamTimeouts(idle, idle)
    place = locate_model(provider, model_id, base_url)
    idle = _IDLE[place]
    if run_timeout:
        idle = min(run_timeout, idle or run_timeout)
    first = CLOUD if place == "cloud" else SELF_HOSTED
    return StreamTimeouts(min(first, idle or first), idle)
