"""The prompt of a turn: workspace files, tools, model and machine gathered into facts, and the facts rendered.

Live runs and previews come through here, so what is shown is what is sent.
"""

import platform
import socket
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from openclaw.agent.settings import AgentDefaults
from openclaw.core.keys import SessionKey
from openclaw.core.provider import Model
from openclaw.core.tool import ToolSpec
from openclaw.prompt import contributions
from openclaw.prompt.build import Prompt, build
from openclaw.prompt.facts import PromptFacts, RuntimeFacts, ToolLine
from openclaw.prompt.fit import allowance, fit
from openclaw.workspace import budget, files, filter  # noqa: A004
from openclaw.workspace.budget import Cut, Limits
from openclaw.workspace.files import FileCache


class Machine(Struct, frozen=True, kw_only=True):
    """What does not change while the process lives."""

    host: str
    os: str
    arch: str
    python: str
    shell: str
    timezone: str
    fence_id: str
    docs_path: str = ""


class Briefing(Struct, frozen=True, kw_only=True):
    """A finished prompt with all that explains it."""

    prompt: Prompt
    facts: PromptFacts
    cut: Cut
    degraded: tuple[str, ...] = ()


class Brief(Struct, frozen=True, kw_only=True):
    """For whom, about what, with which model and tools."""

    key: SessionKey
    workspace: Path
    model: Model
    default_model: str
    tools: Sequence[ToolSpec]
    aliases: tuple[str, ...] = ()
    thinking: str = "off"
    channel: str = ""
    terminal: str = ""
    """The directory of the terminal the person is at."""


def machine(timezone: str, shell: str, fence_id: str, docs_path: str = "") -> Machine:
    return Machine(
        host=socket.gethostname(),
        os=f"{platform.system()} {platform.release()}".strip(),
        arch=platform.machine(),
        python=platform.python_version(),
        shell=Path(shell).name,
        timezone=timezone,
        fence_id=fence_id,
        docs_path=docs_path,
    )


def gather(brief: Brief, about: Machine, defaults: AgentDefaults, cache: FileCache | None) -> tuple[PromptFacts, Cut]:
    """Everything the renderer needs, from the live situation."""
    key = brief.key
    found = filter.choose(files.load(brief.workspace, cache=cache), filter.kind_of(key))
    limits = Limits(per_file=defaults.bootstrap_max_chars, total=defaults.bootstrap_total_max_chars)
    cut = budget.fit(found, limits)
    model = brief.model
    facts = PromptFacts(
        workspace_dir=str(brief.workspace),
        mode="minimal" if key.is_subagent or key.is_cron else "full",
        tools=tuple(ToolLine(spec.name, spec.summary) for spec in brief.tools),
        fence_id=about.fence_id,
        context_files=cut.files,
        truncation_notice=cut.shortened and defaults.bootstrap_prompt_truncation_warning != "off",
        docs_path=about.docs_path,
        user_timezone=defaults.user_timezone or about.timezone,
        model_aliases=brief.aliases,
        silent_replies="generic",
        contribution=contributions.resolve(model.provider, model.id, context_window=model.context_window),
        runtime=RuntimeFacts(
            agent_id=key.agent,
            host=about.host,
            repo_root=repo_root(defaults.repo_root, brief.workspace),
            os=about.os,
            arch=about.arch,
            python=about.python,
            model=model.ref,
            default_model=brief.default_model,
            shell=about.shell,
            channel=brief.channel,
        ),
        thinking=brief.thinking,
        terminal=brief.terminal,
    )
    return facts, cut


def brief(what: Brief, about: Machine, defaults: AgentDefaults, cache: FileCache | None = None) -> Briefing:
    """The prompt for `what`, small enough for its model."""
    facts, cut = gather(what, about, defaults, cache)
    fitted = fit(facts, allowance(what.model.context_window))
    return Briefing(prompt=build(fitted.facts), facts=fitted.facts, cut=cut, degraded=fitted.degraded)


def repo_root(configured: str | None, workspace: Path) -> str:
    """The repository the agent works in, if any."""
    if configured and Path(configured).expanduser().is_dir():
        return configured
    for directory in (workspace, *workspace.parents):
        if (directory / ".git").exists():
            return str(directory)
    return ""
