"""Asking a model one small question, to see whether it answers with the key that is given."""

import asyncio
from contextlib import aclosing

from openclaw.core.clock import Clock, millis
from openclaw.core.errors import OpenClawError
from openclaw.core.messages import User
from openclaw.core.provider import ModelRequest
from openclaw.models.refs import ModelRef
from openclaw.models.situation import ModelSet
from openclaw.providers.catalog import Providers
from openclaw.turns.patience import patience
from openclaw.turns.route import FailoverRoute

SECONDS = 30.0
QUESTION = "Answer with the single word: ready"


async def try_model(situation: ModelSet, ref: ModelRef, clock: Clock, seconds: float = SECONDS) -> str:
    """Why `ref` does not answer; nothing when it does."""
    providers = Providers()
    try:
        async with asyncio.timeout(seconds):
            route = FailoverRoute(
                situation,
                (ref,),
                open_provider=providers,
                clock=clock,
                thinking=lambda model: "off",
                patience=lambda model: patience(model, run_timeout=seconds),
                jitter=lambda: 0.0,
            )
            attempt = route.attempt
            asked = ModelRequest(
                model=attempt.model, messages=(User(content=QUESTION, timestamp=millis(clock)),), max_tokens=64
            )
            async with aclosing(attempt.provider.stream(asked)) as events:  # type: ignore[type-var]
                async for _ in events:
                    return ""
            return f"{ref.key} gave an empty answer"
    except TimeoutError:
        return f"{ref.key} has not answered within {seconds:.0f} s"
    except OpenClawError as error:
        return error.message
    finally:
        await providers.close()
