"""Making a prompt small enough for its model, in a fixed order, and saying what was given up.

1. skills keep their names and places, without descriptions
2. tools keep their names, without summaries
3. files are cut to their beginning, the least important first
4. guidance a capable model can do without goes, section by section
5. files are only named, the least important first; SOUL.md and AGENTS.md last
6. the skills catalog goes
"""

import re
from collections.abc import Callable, Iterator

from msgspec import Struct, structs

from openclaw.core.text import ContextFile, PromptText, head, tokens, units
from openclaw.prompt.build import MAY_OMIT, build
from openclaw.prompt.facts import PromptFacts, ToolLine

SHARE = 0.3
"""The part of a model's window the prompt may take; the rest is for tools' schemas, the talk and the answer."""

CUT_TO = 1_000

# From the least to the most important; files a hook added come before all of these.
IMPORTANCE = (
    "heartbeat.md",
    "tools.md",
    "memory.md",
    "identity.md",
    "user.md",
    "bootstrap.md",
    "soul.md",
    "agents.md",
)
_DETAILS = re.compile(r"\n[ \t]*<(description|version)>[^<]*</\1>")


class Fitted(Struct, frozen=True, kw_only=True):
    """Facts that make a prompt of the wanted size, and what they had to give up for it."""

    facts: PromptFacts
    degraded: tuple[str, ...] = ()
    tokens: int
    max_tokens: int

    @property
    def fits(self) -> bool:
        return self.tokens <= self.max_tokens


def allowance(context_window: int) -> int:
    """How many tokens the prompt may cost in a window of that size."""
    return int(context_window * SHARE)


def fit(facts: PromptFacts, max_tokens: int) -> Fitted:
    """`facts` with as little as possible given up so that the prompt costs at most `max_tokens`."""
    cost = prompt_tokens(facts)
    degraded: list[str] = []
    for what, smaller in _steps(facts):
        if cost <= max_tokens:
            break
        changed = smaller(facts)
        changed_cost = prompt_tokens(changed)
        if changed_cost < cost:
            facts, cost = changed, changed_cost
            degraded.append(what)
    return Fitted(facts=facts, degraded=tuple(degraded), tokens=cost, max_tokens=max_tokens)


def prompt_tokens(facts: PromptFacts) -> int:
    """What the prompt for `facts` costs."""
    return tokens(units(build(facts).text))


Step = tuple[str, Callable[[PromptFacts], PromptFacts]]


def _steps(facts: PromptFacts) -> Iterator[Step]:
    files = sorted(facts.context_files, key=_importance)
    yield "skills: names only", _skill_names
    yield "tools: names only", _tool_names
    for file in files:
        yield f"{file.name}: only its beginning", _with_file(file.path, _beginning)
    for name in MAY_OMIT:
        yield f"section left out: {name}", _without(name)
    for file in files:
        yield f"{file.name}: only its name", _with_file(file.path, _name_only)
    yield "skills: left out", lambda now: structs.replace(now, skills=None)


def _skill_names(facts: PromptFacts) -> PromptFacts:
    if facts.skills is None:
        return facts
    return structs.replace(facts, skills=structs.replace(facts.skills, text=_DETAILS.sub("", facts.skills.text)))


def _tool_names(facts: PromptFacts) -> PromptFacts:
    return structs.replace(facts, tools=tuple(ToolLine(tool.name, None) for tool in facts.tools))


def _without(name: str) -> Callable[[PromptFacts], PromptFacts]:
    return lambda facts: structs.replace(facts, omit=(*facts.omit, name))


def _with_file(path: str, change: Callable[[ContextFile], ContextFile]) -> Callable[[PromptFacts], PromptFacts]:
    def apply(facts: PromptFacts) -> PromptFacts:
        files = tuple(change(file) if file.path == path else file for file in facts.context_files)
        return structs.replace(facts, context_files=files, truncation_notice=True)

    return apply


def _beginning(file: ContextFile) -> ContextFile:
    if file.injected_chars <= CUT_TO:
        return file
    kept = head(file.content.text, CUT_TO).rstrip()
    return _replaced(file, f"{kept}\n\n[...truncated, read {file.name} for full content...]")


def _name_only(file: ContextFile) -> ContextFile:
    return _replaced(file, "") if file.content else file


def _replaced(file: ContextFile, text: str) -> ContextFile:
    causes = tuple(dict.fromkeys((*file.causes, "model-budget")))
    content = PromptText(text, file.content.source, file.content.label)
    return structs.replace(file, content=content, truncated=True, causes=causes)


def _importance(file: ContextFile) -> int:
    name = file.name.lower()
    return IMPORTANCE.index(name) if name in IMPORTANCE else -1
