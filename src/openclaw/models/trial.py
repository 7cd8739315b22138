"""Tries a model with one small question, before a key or an address is kept."""

import asyncio
from contextlib import aclosing

from msgspec import Struct

from openclaw.core.clock import Clock, millis
from openclaw.core.errors import OpenClawError
from openclaw.core.events import TextDelta
from openclaw.core.messages import User
from openclaw.core.provider import ModelRequest, OpenProvider
from openclaw.models.model_set import ModelSet
from openclaw.models.refs import ModelRef

TRIAL_SECONDS = 30.0
QUESTION = "Answer with the single word: ready"
ANSWER_CHARS = 200


class ModelTrial(Struct, frozen=True, kw_only=True):
    """How a model answered the question, or why it did not."""

    ref: ModelRef
    answer: str = ""
    problem: str = ""
    seconds: float = 0.0


async def try_model(
    models: ModelSet, ref: ModelRef, open_provider: OpenProvider, clock: Clock, seconds: float = TRIAL_SECONDS
) -> ModelTrial:
    """Asks `ref` once, with the credential that would be used first."""
    began, answered, answer = clock.now(), False, ""
    try:
        model = models.model(ref)
        credential = models.credentials(ref, millis(clock))[0]
        question = User(content=QUESTION, timestamp=millis(clock))
        request = ModelRequest(model=model, messages=(question,), max_tokens=64)
        provider = open_provider(models.endpoint(model, credential))
        async with asyncio.timeout(seconds), aclosing(provider.stream(request)) as events:  # type: ignore[type-var]
            async for event in events:
                answered = True
                answer += event.text if isinstance(event, TextDelta) else ""
    except TimeoutError:
        if not answered:
            return ModelTrial(ref=ref, problem=f"{ref.key} has not answered within {seconds:.0f} s")
    except OpenClawError as error:
        return ModelTrial(ref=ref, problem=error.message)
    if not answered:
        return ModelTrial(ref=ref, problem=f"{ref.key} gave an empty answer")
    return ModelTrial(ref=ref, answer=" ".join(answer.split())[:ANSWER_CHARS], seconds=clock.now() - began)
