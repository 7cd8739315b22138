"""A model that can be asked aside: its conversation, its notes and its flushes come from three scripts."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from openclaw.core.events import ModelEvent
from openclaw.core.messages import Message
from openclaw.core.provider import ModelRequest
from openclaw.sessions.files import load
from openclaw.sessions.transcript import AnyEntry, Compaction, path_to_leaf
from openclaw.testing import ScriptedModel, TemporaryHome, says

HEADINGS = ("Decisions", "Open TODOs", "Constraints/Rules", "Pending user asks", "Exact identifiers")
GOOD = "\n".join(f"## {name}\n- None" for name in HEADINGS)
WINDOW = 40_000


class Model:
    """Dispatches by what it is asked for; without a script of their own, notes are good and flushes say nothing."""

    def __init__(self) -> None:
        self.talk = ScriptedModel()
        self.notes = ScriptedModel()
        self.flush = ScriptedModel()
        self.usual_notes = GOOD

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if "You write the notes" in request.system.text or "the beginning of a turn" in request.system.text:
            chosen, usual = self.notes, self.usual_notes
        elif "about to be shortened" in _flush_wish(request.messages):
            chosen, usual = self.flush, "NO_REPLY"
        else:
            chosen, usual = self.talk, ""
        if not chosen.left and usual:
            chosen.script(says(usual))
        async for event in chosen.stream(request):
            yield event

    async def close(self) -> None:
        return None


def _flush_wish(messages: tuple[Message, ...]) -> str:
    return "\n".join(message.text for message in messages[-6:])


def configure(home: TemporaryHome, window: int = WINDOW, pruning: Any = None, **compaction: Any) -> None:
    """A model with a window of `window` tokens; no flushes unless a test wants them."""
    model = {"id": "m", "contextWindow": window, "maxTokens": 1_000, "input": ["text", "image"]}
    provider = {"api": "openai-completions", "baseUrl": "http://127.0.0.1:9/v1", "models": [model]}
    defaults = {
        "model": {"primary": "p/m"},
        "compaction": {"memoryFlush": {"enabled": False}, "keepRecentTokens": 1_000, **compaction},
        **({"contextPruning": pruning} if pruning else {}),
    }
    home.configure({"models": {"providers": {"p": provider}}, "agents": {"defaults": defaults}})


def entries(home: TemporaryHome) -> list[AnyEntry]:
    return path_to_leaf(load(transcript(home)).entries)


def transcript(home: TemporaryHome) -> Path:
    (only,) = home.transcripts()
    return only


def compactions(home: TemporaryHome) -> list[Compaction]:
    return [entry for entry in entries(home) if isinstance(entry, Compaction)]


def prompt(request: ModelRequest) -> str:
    """All the model was shown of the conversation."""
    return "\n".join(message.text for message in request.messages)
