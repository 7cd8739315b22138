"""`openclaw gateway run` with plain options, read without click: what a gateway loads stays in its memory.

Help, mistakes and everything else are left to the command itself (`group`), which has the options and what they mean.
"""

from typing import TYPE_CHECKING, Any

from openclaw.core.deferred import Deferred
from openclaw.core.lean import import_asyncio, import_hashlib, import_msgspec

if TYPE_CHECKING:
    from openclaw.cli import root
    from openclaw.cli.gateway import run as gateway
else:
    root = Deferred("openclaw.cli.root")
    gateway = Deferred("openclaw.cli.gateway.run")

FLAGS = ("--force", "--verbose", "--no-console")
TEXTS = ("--bind", "--auth", "--token", "--password")


def read_plainly(words: list[str]) -> dict[str, Any] | None:
    """The options of words that run a gateway and need no explanation; None for any others."""
    given: dict[str, Any] = {}
    rest = iter(words[1:] if words[:1] == ["run"] else words)
    for word in rest:
        name = word.removeprefix("--").replace("-", "_")
        value = "" if word in FLAGS else next(rest, "")
        if word in FLAGS:
            given[name] = True
        elif word in TEXTS and value:
            given[name] = value
        elif word == "--port" and value.isascii() and value.isdecimal() and int(value) <= 65_535:
            given[name] = int(value)
        else:
            return None
    return given


def run(arguments: list[str]) -> int:
    """Runs `openclaw gateway …`; gives the exit code."""
    options = read_plainly(arguments[1:])
    if options is None:
        return root.run(arguments)
    import_hashlib()
    import_msgspec()
    import_asyncio()
    try:
        gateway.run_gateway(**options)
    except (Exception, KeyboardInterrupt) as error:
        return root.explain(error)
    return 0
