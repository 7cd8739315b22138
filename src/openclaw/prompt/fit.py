"""Contributions of model families, and reducing a prompt until it fits its model.

The reductions, in this order; `Fitted.degraded` lists those made:

1. skills keep their names and places, without descriptions
2. tools keep their names, without summaries
3. files are cut to their beginning, the least important first
4. guidance a capable model can do without goes, section by section
5. files are only named, the least important first; SOUL.md and AGENTS.md last
6. the skills catalog goes
"""

import re
from collections.abc import Callable, Iterator
from functools import partial

from msgspec import Struct, structs

from openclaw.core.text import ContextFile, PromptText, compile_lazily, estimate_tokens, head, utf16_length
from openclaw.prompt.build import MAY_OMIT, build
from openclaw.prompt.facts import NO_CONTRIBUTION, Contribution, PromptFacts

# Contributions of model families.

GPT5_PROVIDERS = frozenset(("openai", "codex", "codex-cli", "azure-openai", "azure-openai-responses"))
LOCAL_PROVIDERS = frozenset(("ollama", "lmstudio", "llamacpp", "llama-cpp", "local"))
SMALL_WINDOW = 16_384
SMALL_BILLIONS = 14.0

_GPT5 = re.compile(r"(^|[/:])gpt-5([.-]|$)", re.I)
_SIZE = compile_lazily(r"(?:^|[-_:/.])(\d+(?:\.\d+)?)b(?:[-_:.]|$)", re.I)

_GPT5_PREFIX = """<persona_latch>
The character in SOUL.md and the user's wishes hold for the whole conversation, also after long tool work. Stay in it without announcing it.
</persona_latch>
<execution_policy>
When the next step is clear and safe, take it; do not ask for leave. If something is missing, look for it first; ask one exact question only when nothing you can reach answers it. Facts that change are looked up, not recalled.
</execution_policy>
<tool_discipline>
Call a tool when it makes the answer more right. Run independent lookups side by side, dependent ones in order. Empty or odd results: try a second way before giving up. In a terminal: commands that end by themselves, no pagers or prompts, only the output you need, and clean up what you started.
</tool_discipline>
<output_contract>
Begin with the answer. Few words, plain text, no preamble, no recap of the request, no list of what you might do next. Keep exactly to a format the user gave.
</output_contract>
<completion_contract>
Before you finish, go through everything that was asked: each part is delivered, or named as blocked with the reason. Verify with the means at hand, and say what you could not verify.
</completion_contract>"""  # noqa: E501

_GPT5_BIAS = "Act in this turn, and stop only when it is done or truly blocked."

_CLAUDE_PREFIX = (
    "Do what was asked and no more: no extra files, features or summaries. Make independent tool calls in one go. "
    "Report results as they are, failures included."
)

_GEMINI_PREFIX = (
    "Use tools through real calls only; never print a call as text or code. After a tool result, go on to the next "
    "step or give the answer; do not stop with a plan. Keep to the user's language."
)

_SMALL_PREFIX = (
    "One step at a time: call one tool, read the result, then decide. Use only tools listed above, with real "
    "arguments. Answer in a few plain sentences. If you do not know, say so."
)


def resolve(
    provider: str, model_id: str, *, context_window: int | None = None, theirs: Contribution = NO_CONTRIBUTION
) -> Contribution:
    """What is added for a model: the texts of its provider, and for the rest those of its family, if it needs any."""
    ours = _of_family(provider, model_id, context_window)
    given = {name: text for name in Contribution.__struct_fields__ if (text := getattr(theirs, name)) is not None}
    return structs.replace(ours, **given) if given else ours


def _of_family(provider: str, model_id: str, context_window: int | None) -> Contribution:
    if is_small(provider, model_id, context_window):
        return Contribution(stable_prefix=_ours(_SMALL_PREFIX, "small"))
    name = model_id.lower()
    if provider.lower() in GPT5_PROVIDERS and _GPT5.search(name):
        return Contribution(execution_bias=_ours(_GPT5_BIAS, "gpt-5"), stable_prefix=_ours(_GPT5_PREFIX, "gpt-5"))
    if "claude" in name or provider.lower() == "anthropic":
        return Contribution(stable_prefix=_ours(_CLAUDE_PREFIX, "claude"))
    if "gemini" in name:
        return Contribution(stable_prefix=_ours(_GEMINI_PREFIX, "gemini"))
    return Contribution()


def is_small(provider: str, model_id: str, context_window: int | None) -> bool:
    """Whether the model needs a short, simple prompt: a small window, or few parameters on a local provider."""
    if context_window is not None and context_window <= SMALL_WINDOW:
        return True
    size = _SIZE.search(model_id)
    return provider.lower() in LOCAL_PROVIDERS and size is not None and float(size[1]) <= SMALL_BILLIONS


def _ours(text: str, family: str) -> PromptText:
    return PromptText(text, f"model family {family}")


# Reduction.

SHARE = 0.3
"""The share of the window for the prompt; the rest is for tool schemas, messages and the answer."""

CUT_TO = 1_000

# From the least to the most important; files a hook added come before all of these.
IMPORTANCE = ("heartbeat.md", "tools.md", "memory.md", "identity.md", "user.md", "bootstrap.md", "soul.md", "agents.md")
_DETAILS = compile_lazily(r"\n[ \t]*<(description|version)>[^<]*</\1>")


class Fitted(Struct, frozen=True, kw_only=True):
    """Reduced facts, and the reductions that were made."""

    facts: PromptFacts
    degraded: tuple[str, ...] = ()
    tokens: int


def token_budget(context_window: int) -> int:
    """The most tokens of a prompt for this window."""
    return int(context_window * SHARE)


def fit(facts: PromptFacts, max_tokens: int) -> Fitted:
    """Reduces `facts` step by step until the prompt has at most `max_tokens`."""
    cost = _prompt_tokens(facts)
    degraded: list[str] = []
    for what, smaller in _steps(facts):
        if cost <= max_tokens:
            break
        changed = smaller(facts)
        changed_cost = _prompt_tokens(changed)
        if changed_cost < cost:
            facts, cost = changed, changed_cost
            degraded.append(what)
    return Fitted(facts=facts, degraded=tuple(degraded), tokens=cost)


def _prompt_tokens(facts: PromptFacts) -> int:
    return estimate_tokens(utf16_length(build(facts).text))


def _steps(facts: PromptFacts) -> Iterator[tuple[str, Callable[[PromptFacts], PromptFacts]]]:
    files = sorted(facts.context_files, key=_importance)
    yield "skills: names only", _skill_names
    yield "tools: names only", _tool_names
    for file in files:
        yield f"{file.name}: only its beginning", partial(_with_file, file.path, _beginning)
    for name in MAY_OMIT:
        yield f"section left out: {name}", partial(_omit, name)
    for file in files:
        yield f"{file.name}: only its name", partial(_with_file, file.path, _name_only)
    yield "skills: left out", partial(structs.replace, skills=None)


def _skill_names(facts: PromptFacts) -> PromptFacts:
    if facts.skills is None:
        return facts
    return structs.replace(facts, skills=structs.replace(facts.skills, text=_DETAILS.sub("", facts.skills.text)))


def _tool_names(facts: PromptFacts) -> PromptFacts:
    return structs.replace(facts, tools=tuple(structs.replace(tool, summary=None) for tool in facts.tools))


def _omit(name: str, facts: PromptFacts) -> PromptFacts:
    return structs.replace(facts, omit=(*facts.omit, name))


def _with_file(path: str, change: Callable[[ContextFile], ContextFile], facts: PromptFacts) -> PromptFacts:
    files = tuple(change(file) if file.path == path else file for file in facts.context_files)
    return structs.replace(facts, context_files=files, truncation_notice=True)


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
