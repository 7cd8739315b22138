"""Books what the model of a Codex turn costs: reserved before it is asked, settled as it counts."""

from openclaw.core.errors import ProviderError
from openclaw.core.events import Done
from openclaw.core.harness import MeteredCall, ModelRouter, RunJob, RunTools
from openclaw.core.messages import Assistant, Usage
from openclaw.core.provider import ModelRequest
from openclaw.harnesses.codex.binding import API


class TurnMeter:
    """The open reservation of one run, and how much of its usage is booked."""

    def __init__(self, route: ModelRouter) -> None:
        self._route = route
        self._open: MeteredCall | None = None
        self._booked = Usage()

    @property
    def reserved(self) -> bool:
        return self._open is not None

    async def reserve(self, job: RunJob, tools: RunTools) -> None:
        """Reserves the next answer; raises `OverBudget` when it must not be asked for."""
        attempt = self._route.attempt
        if attempt.reserve is None or self._open is not None:
            return
        request = ModelRequest(
            model=attempt.model, system=job.system, messages=job.messages, tools=tools.specs, thinking=attempt.thinking
        )
        self._open = await attempt.reserve(request)
        self._open.begun = True

    async def settle(self, spent: Usage, error: ProviderError | None = None) -> None:
        """Books what was spent since the last time, and closes the reservation."""
        metered, self._open = self._open, None
        if metered is None:
            return
        fresh, self._booked = usage_less(spent, self._booked), spent
        if fresh.total_tokens:
            model = self._route.attempt.model
            metered.add(Done(Assistant(content=(), api=API, provider=model.provider, model=model.id, usage=fresh)))
        elif error is not None:
            metered.failed(error)
        await metered.close()


def usage_less(usage: Usage, booked: Usage) -> Usage:
    """What of `usage` was not booked yet; its price is looked up again."""
    names = ("input", "output", "cache_read", "cache_write", "total_tokens")
    return Usage(**{name: getattr(usage, name) - getattr(booked, name) for name in names})
