"""Runs one transform of a webhook, in a process of its own: `python -I -B transform_worker.py NAME FUNCTION`.

Its source and the call come as JSON on standard input; prints go to standard error. Only the standard library."""

import json
import os
import sys
from types import SimpleNamespace
from typing import Any


def main() -> None:
    name, function = sys.argv[1:3]
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # from here on, prints go to standard error and are no answer
    told: dict[str, Any] = json.load(sys.stdin)
    space: dict[str, Any] = {"__name__": "transform"}
    exec(compile(told["source"], name, "exec"), space)  # noqa: S102 (the owner has accepted exactly this source)
    if not callable(space.get(function)):
        raise SystemExit(f"{name} has no function {function}(ctx)")
    json.dump(space[function](SimpleNamespace(**told["call"])), answers)
    answers.close()


if __name__ == "__main__":
    main()
