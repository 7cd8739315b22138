"""Renders facts to a prompt: order of sections, modes, cache boundary. The same facts give the same bytes."""

from collections.abc import Callable, Iterable
from functools import lru_cache

from msgspec import Struct, structs

from openclaw.core.provider import System
from openclaw.core.text import CACHE_BOUNDARY, ContextFile, PromptText
from openclaw.prompt.facts import Contribution, PromptFacts, Section, stable_only
from openclaw.prompt.sections import stable as above
from openclaw.prompt.sections import tools
from openclaw.prompt.sections import volatile as below

Piece = Callable[[PromptFacts], "Section | tuple[Section | None, ...] | None"]

STABLE: tuple[Piece, ...] = (
    above.identity,
    tools.tooling,
    tools.delegation,
    above.interaction_style,
    above.tool_call_style,
    above.approvals,
    above.execution_bias,
    above.stable_prefix,
    above.safety,
    above.control,
    above.skills,
    above.memory,
    above.self_update,
    above.model_aliases,
    above.clock,
    above.workspace,
    above.documentation,
    above.sandbox,
    above.authorized_senders,
    above.time_zone,
    above.truncation,
    above.workspace_files,
    above.output_directives,
    above.reasoning_format,
    above.project_context,
    above.silent_replies,
)
DYNAMIC: tuple[Piece, ...] = (
    below.control_ui,
    below.messaging,
    below.voice,
    below.extra,
    below.terminal,
    below.reactions,
    below.dynamic_suffix,
    below.heartbeats,
    below.runtime,
)

# Sections left out for small models, least useful first; safety sections are never among them.
MAY_OMIT = (
    "documentation",
    "output_directives",
    "self_update",
    "control",
    "delegation",
    "model_aliases",
    "reactions",
    "message_tool",
    "execution_bias",
    "memory",
)

MEMO_SIZE = 64


class Prompt(Struct, frozen=True, kw_only=True):
    """A rendered prompt, kept in sections so that every line can be traced to its source."""

    sections: tuple[Section, ...]
    stable: str
    dynamic: str

    @property
    def text(self) -> str:
        """The whole prompt, with the boundary marker when it has both parts."""
        return f"{self.stable}{CACHE_BOUNDARY}{self.dynamic}" if self.dynamic else self.stable

    @property
    def system(self) -> System:
        """The stable and the dynamic part for a provider, without the marker."""
        return System(stable=self.stable, dynamic=self.dynamic)


def build(facts: PromptFacts) -> Prompt:
    """Renders the prompt for `facts`."""
    _check(facts)
    if facts.mode == "none":
        only = _render((above.identity,), facts)
        return Prompt(sections=only, stable=above.IDENTITY, dynamic="")
    if facts.mode != "minimal":
        facts = structs.replace(facts, mode="full")
    stable_sections, stable = render_stable(stable_only(facts))
    dynamic_sections = _render(DYNAMIC, facts)
    return Prompt(sections=stable_sections + dynamic_sections, stable=stable, dynamic=assemble(dynamic_sections))


def assemble(sections: Iterable[Section]) -> str:
    return "\n".join(piece.rendered for piece in sections)


@lru_cache(maxsize=MEMO_SIZE)
def render_stable(facts: PromptFacts) -> tuple[tuple[Section, ...], str]:
    """The sections above the boundary and their text; the last few are cached."""
    sections = _render(STABLE, facts)
    return sections, assemble(sections).rstrip()


def _render(pieces: tuple[Piece, ...], facts: PromptFacts) -> tuple[Section, ...]:
    omitted = frozenset(facts.omit) & frozenset(MAY_OMIT)
    made = (piece(facts) for piece in pieces)
    flat = (one for each in made for one in (each if isinstance(each, tuple) else (each,)))
    return tuple(one for one in flat if one is not None and one.id not in omitted)


_TEXTS = tuple(
    field.name for field in structs.fields(PromptFacts) if field.type in (PromptText | None, tuple[PromptText, ...])
)
_BLOCKS = tuple(field.name for field in structs.fields(Contribution))


def _check(facts: PromptFacts) -> None:
    """Raises for prose without a source: a bare string is a bug in the code that gathered the facts."""
    for name in _TEXTS:
        value = getattr(facts, name)
        for text in value if isinstance(value, tuple) else (value,):
            _check_text(name, text)
    for name in _BLOCKS:
        _check_text(f"contribution.{name}", getattr(facts.contribution, name))
    for file in facts.context_files:
        if not isinstance(file, ContextFile):
            raise TypeError(f"context_files holds a {type(file).__name__}; give a ContextFile")
        _check_text(f"content of {file.name}", file.content)


def _check_text(name: str, text: object) -> None:
    if text is not None and not isinstance(text, PromptText):
        raise TypeError(f"{name} is a {type(text).__name__}; give a PromptText, so that its source and label are known")
