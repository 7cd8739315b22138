"""What tests of prompts share."""

from typing import Any

from openclaw.gateway.app import App
from openclaw.prompt.builder import BuiltPrompt
from openclaw.prompt.facts import Mode
from openclaw.runs.request import RunRequest


async def preview(app: App, session: str = "main", mode: Mode | None = None, **request: Any) -> BuiltPrompt:
    """The prompt that a turn of `session` would get."""
    turn = RunRequest(run_id="", key=app.key(session, None), text="", **request)
    return (await app.preparer.preview(turn, app.toolset(), mode)).built
