"""What each model family needs to hear, in few words."""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import structs

from openclaw.core.text import PromptText
from openclaw.prompt.facts import Contribution

GPT5_PROVIDERS = frozenset(("openai", "codex", "codex-cli", "azure-openai", "azure-openai-responses"))
LOCAL_PROVIDERS = frozenset(("ollama", "lmstudio", "llamacpp", "llama-cpp", "local"))
SMALL_WINDOW = 16_384
SMALL_BILLIONS = 14.0

_GPT5 = re.compile(r"(^|[/:])gpt-5([.-]|$)", re.I)
_SIZE = re.compile(r"(?:^|[-_:/.])(\d+(?:\.\d+)?)b(?:[-_:.]|$)", re.I)

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

_GPT5_BIAS = "## Execution Bias\nAct in this turn, and stop only when it is done or truly blocked."

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


def resolve(provider: str, model_id: str, *, context_window: int | None = None) -> Contribution:
    """The built-in contribution for a model; an empty one for families that need none."""
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
    """Whether the model needs short, simple words: a narrow window, or few parameters on the user's own machine."""
    if context_window is not None and context_window <= SMALL_WINDOW:
        return True
    size = _SIZE.search(model_id)
    return provider.lower() in LOCAL_PROVIDERS and size is not None and float(size[1]) <= SMALL_BILLIONS


def of_plugin(answer: Mapping[str, Any], source: str) -> Contribution:
    """A plugin's answer as a contribution; names we do not know and values that are not text are ignored."""
    overrides = answer.get("sectionOverrides")
    given = {**(overrides if isinstance(overrides, Mapping) else {})}
    given = {key: given.get(key) for key in ("interaction_style", "tool_call_style", "execution_bias")}
    given |= {"stable_prefix": answer.get("stablePrefix"), "dynamic_suffix": answer.get("dynamicSuffix")}
    texts = {key: PromptText(value, source, "tool") for key, value in given.items() if _is_text(value)}
    return Contribution(**texts)


def merge(base: Contribution, over: Contribution) -> Contribution:
    """`base` with whatever `over` says in its place."""
    said = {field.name: getattr(over, field.name) for field in structs.fields(Contribution)}
    return structs.replace(base, **{key: value for key, value in said.items() if value})


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _ours(text: str, family: str) -> PromptText:
    return PromptText(text, f"model family {family}")
