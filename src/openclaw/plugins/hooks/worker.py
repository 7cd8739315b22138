"""Runs one Python handler for one event, in a process of its own: `python -I -B worker.py HANDLER FUNCTION`.

It reads and writes JSON; prints go to standard error. It imports the standard library only, to start quickly."""

import asyncio
import importlib.util
import inspect
import json
import os
import sys
from typing import Any


class WorkerEvent:
    """What a handler is given. `messages` may be appended to; `context` and `options` are the JSON of the event."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.type: str = told["type"]
        self.action: str = told["action"]
        self.session_key: str = told.get("sessionKey", "")
        self.timestamp: str = told["timestamp"]
        self.context: dict[str, Any] = told["context"]
        self.options: dict[str, Any] = told["options"]
        self.messages: list[str] = told["messages"]

    @property
    def name(self) -> str:
        return f"{self.type}:{self.action}"


def load(path: str, function: str) -> Any:
    """Loads the function called `function` from the file `path`."""
    sys.path.insert(0, os.path.dirname(path))  # noqa: PTH120 (pathlib is not worth its import here)
    spec = importlib.util.spec_from_file_location("handler", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules["handler"] = module
    spec.loader.exec_module(module)
    found = getattr(module, function, None)
    if not callable(found):
        raise SystemExit(f"{os.path.basename(path)} has no function {function}(event)")  # noqa: PTH119
    return found


async def _awaited(result: Any) -> None:
    await result


def main() -> None:
    path, function = sys.argv[1:3]
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # from here on, prints go to standard error and are no answer
    event = WorkerEvent(json.load(sys.stdin))
    result = load(path, function)(event)
    if inspect.isawaitable(result):
        asyncio.run(_awaited(result))
    said: dict[str, Any] = {"messages": [str(each) for each in event.messages]}
    if event.name == "agent:bootstrap":
        said["bootstrapFiles"] = event.context.get("bootstrapFiles")
    json.dump(said, answers)
    answers.close()


if __name__ == "__main__":
    main()
