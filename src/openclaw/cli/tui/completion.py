"""Which commands fit what is typed: the gateway's and this terminal's own. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from openclaw.cli.tui.words import one_line


class CompletionChoice(Struct, frozen=True):
    """A command on offer."""

    name: str
    about: str
    takes_more: bool = False


OWN = (
    CompletionChoice("sessions", "choose another conversation (Ctrl+O)"),
    CompletionChoice("begin", "another conversation beside this one (Ctrl+N)"),
    CompletionChoice("image", "attach a picture: /image PATH", takes_more=True),
    CompletionChoice("details", "show or hide thinking and tool output (Ctrl+T)"),
    CompletionChoice("copy", "copy the last answer (Ctrl+Y)"),
    CompletionChoice("keys", "what the keys do (F1)"),
    CompletionChoice("exit", "leave (Ctrl+D)"),
)
_BEGUN = re.compile(r"/[\w:-]*")


def completions(text: str, commands: Sequence[Mapping[str, Any]]) -> tuple[CompletionChoice, ...]:
    """The commands that begin with what is typed."""
    if _BEGUN.fullmatch(text) is None:
        return ()
    known = {choice.name: choice for choice in OWN}
    for each in commands:
        name = one_line(str(each.get("name", "")), 60)
        known[name] = CompletionChoice(
            name, one_line(str(each.get("description", "")), 80), bool(each.get("acceptsArgs"))
        )
    fitting = [known[name] for name in sorted(known) if f"/{name}".startswith(text.lower())]
    return () if [each.name for each in fitting] == [text[1:]] else tuple(fitting)
