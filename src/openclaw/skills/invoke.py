"""Parses skill commands (`/skill:name`, `/skill name`, `/name`). Pure."""

import re
from collections.abc import Sequence

from msgspec import Struct

from openclaw.core.text import compile_lazily
from openclaw.skills.gate import ListedSkill

MAX_COMMAND = 32
_NAMED = compile_lazily(r"/skill(?::(?P<colon>[^\s/]+)|[ \t]+(?P<word>\S+))(?:\s+(?P<input>.*))?\Z", re.DOTALL | re.I)
_COMMAND = compile_lazily(r"/(?P<word>[a-z0-9_]{1,40})(?:@\S+)?(?:\s+(?P<input>.*))?\Z", re.DOTALL | re.I)
_ODD = compile_lazily(r"[^a-z0-9_]+")


class SkillCall(Struct, frozen=True):
    """A call of a skill by a person."""

    item: ListedSkill
    input: str = ""


class Unknown(Struct, frozen=True):
    """A call of a skill that does not exist or cannot be called."""

    name: str
    why: str


def commands(items: Sequence[ListedSkill], taken: Sequence[str] = ()) -> dict[str, ListedSkill]:
    """The command of each skill people may call; names in `taken` are reserved."""
    found: dict[str, ListedSkill] = {}
    used = {name.lower() for name in taken}
    for item in items:
        if not item.user_invocable:
            continue
        base = _ODD.sub("_", item.skill.name.lower()).strip("_")[:MAX_COMMAND] or "skill"
        name, number = base, 2
        while name in used:
            ending = f"_{number}"
            name, number = base[: MAX_COMMAND - len(ending)] + ending, number + 1
        used.add(name)
        found[name] = item
    return found


def parse(text: str, items: Sequence[ListedSkill], taken: Sequence[str] = ()) -> SkillCall | Unknown | None:
    """Parses a skill call; None when `text` is not one."""
    text = text.strip()
    named = _NAMED.match(text)
    if named is not None:
        return _by_name(named["colon"] or named["word"], (named["input"] or "").strip(), items)
    command = _COMMAND.match(text)
    if command is None:
        return None
    item = commands(items, taken).get(command["word"].lower())
    return SkillCall(item, (command["input"] or "").strip()) if item else None


def _by_name(name: str, given: str, items: Sequence[ListedSkill]) -> SkillCall | Unknown:
    wanted = name.lower()
    as_command = commands(items)
    for item in items:
        if wanted == item.skill.name.lower() or as_command.get(wanted) is item:
            if item.user_invocable:
                return SkillCall(item, given)
            why = "; ".join(item.verdict.reasons) or "it is not meant to be called by people"
            return Unknown(name, f"the skill {item.skill.name} cannot be called: {why}")
    return Unknown(name, f"there is no skill {name!r}: openclaw skills list shows what there is")


def instruction(call: SkillCall, location: str) -> str:
    """The message the model gets in place of the command."""
    asked = f'Use the skill "{call.item.skill.name}" now: read {location} with `read` and follow it.'
    return f"{asked}\n\n{call.input}" if call.input else asked
