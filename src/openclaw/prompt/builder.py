"""Builds the prompt of a turn: gathers workspace files, tools, model and machine into facts and renders them.

Live runs and previews both use `PromptBuilder`, so a preview is what would be sent. Also here: the additions of hooks,
and the prompt options from the configuration.
"""

import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, structs

from openclaw.agent.settings import AgentDefaults, AgentEntry, ResolvedAgent
from openclaw.automation.settings import HeartbeatSettings
from openclaw.core.keys import MAIN, SessionKey
from openclaw.core.provider import Model
from openclaw.core.secret import Secret
from openclaw.core.text import ContextFile, PromptText, estimate_tokens, fence
from openclaw.core.tool import ToolSpec
from openclaw.prompt import fit as prompt_fit
from openclaw.prompt.build import Prompt, assemble, build
from openclaw.prompt.facts import (
    DEFAULT_HEARTBEAT,
    NO_CONTRIBUTION,
    ChatFacts,
    Contribution,
    Mode,
    PromptFacts,
    RuntimeFacts,
    SandboxFacts,
    Section,
    ToolLine,
    clean,
    clean_line,
)
from openclaw.prompt.fit import fit, token_budget
from openclaw.prompt.machine import PromptMachine
from openclaw.prompt.report import ChangeLine, PromptReport, ReportHeader, SandboxPart, TruncationPart, report
from openclaw.prompt.sections.tools import authorized_senders
from openclaw.security import scan
from openclaw.security.audit import AuditEntry
from openclaw.security.settings import CommandsSettings
from openclaw.workspace import budget, files
from openclaw.workspace.budget import FileBudget, FileCut
from openclaw.workspace.files import FileCache, WorkspaceFile
from openclaw.workspace.pins import BootstrapPins

# Additions of hooks.

IRREPLACEABLE = ("identity", "safety", "sandbox", "authorized_senders")
"""Sections that stay even when a hook replaces the prompt."""


class Additions(Struct, frozen=True, kw_only=True):
    """The answers of all handlers, in the order they ran."""

    replace: PromptText | None = None
    """A whole prompt in place of ours, from a handler with that permission."""
    prepend: tuple[PromptText, ...] = ()
    """Stable text before the prompt."""
    append: tuple[PromptText, ...] = ()
    """Stable text after the stable part; the runtime line stays last."""


def apply(prompt: Prompt, additions: Additions, fence_id: str = "") -> Prompt:
    """Adds the additions to `prompt`, each as a section of its own, so that reports and blame show its source."""
    if additions == Additions():
        return prompt
    stable = [piece for piece in prompt.sections if piece.stable]
    dynamic = [piece for piece in prompt.sections if not piece.stable]
    if additions.replace and clean(additions.replace):
        kept = {piece.id: piece for piece in stable if piece.id in IRREPLACEABLE}
        theirs = _pieces("system", (additions.replace,), "")
        identity = [kept.pop("identity")] if "identity" in kept else []
        stable, dynamic = [*identity, *theirs, *kept.values()], []
    stable = [*_pieces("prepend", additions.prepend, fence_id, after="\n"), *stable]
    stable += _pieces("append", additions.append, fence_id, before="\n")
    return Prompt(sections=(*stable, *dynamic), stable=assemble(stable).rstrip(), dynamic=assemble(dynamic))


def _pieces(
    where: str, texts: tuple[PromptText, ...], fence_id: str, *, before: str = "", after: str = ""
) -> list[Section]:
    pieces = []
    for number, text in enumerate(texts, 1):
        body = clean(text)
        if not body:
            continue
        if fence_id:
            body = fence("PLUGIN_CONTEXT", clean_line(fence_id), body, source=text.source)
        name = f"hook:{where}:{number}"
        pieces.append(Section(id=name, heading="", text=f"{before}{body}{after}", source=text.source, label=text.label))
    return pieces


# Options from the configuration.

Citations = Literal["auto", "on", "off"]


class PromptOptions(Struct, frozen=True, kw_only=True):
    """The configuration of one agent's prompt."""

    senders: PromptText | None = None
    aliases: tuple[str, ...] = ()
    citations: Citations = "auto"
    delegation: Literal["suggest", "prefer"] = "suggest"
    heartbeat: PromptText | None = None
    """The heartbeat prompt, for the agent that has heartbeats."""
    heartbeats: bool = False
    """Whether any agent has heartbeats, so that prompts mention them."""


def resolve(
    agent: AgentEntry,
    defaults: AgentDefaults,
    commands: CommandsSettings,
    *,
    is_default: bool,
    secret: Callable[[], Secret],
    citations: Citations = "auto",
) -> PromptOptions:
    """Resolves the options of `agent`; calls `secret` only when owner ids are hashed."""
    hashed = commands.owner_display == "hash" and any(
        name.strip() not in ("", "*") for name in commands.owner_allow_from
    )
    key = (commands.owner_display_secret or secret()) if hashed else None
    heartbeat = _heartbeat(agent.heartbeat or defaults.heartbeat)
    return PromptOptions(
        senders=authorized_senders(commands.owner_allow_from, commands.owner_display, key),
        aliases=tuple(
            f"- {alias}: {ref}"
            for alias, ref in sorted((item.alias, ref) for ref, item in defaults.models.items() if item.alias)
        ),
        citations=citations,
        delegation=agent.subagents.delegation_mode or defaults.subagents.delegation_mode or "suggest",
        heartbeat=heartbeat if is_default or agent.heartbeat else None,
        heartbeats=heartbeat is not None,
    )


def _heartbeat(settings: HeartbeatSettings | None) -> PromptText | None:
    if settings is None or not settings.include_system_prompt_section or settings.every.strip() in ("0", "0m", "0s"):
        return None
    if settings.prompt:
        return PromptText(settings.prompt, "agents.defaults.heartbeat.prompt", "owner")
    return DEFAULT_HEARTBEAT


# Building.


class PromptRequest(Struct, frozen=True, kw_only=True):
    """The inputs of one prompt: session, workspace, model, tools and options."""

    key: SessionKey
    workspace: Path
    model: Model
    default_model: str
    tools: Sequence[ToolSpec]
    """All that the model may call."""
    sent: Sequence[ToolSpec]
    """Those whose schema goes with the request, as it goes."""
    options: PromptOptions = PromptOptions()
    mode: Mode | None = None
    """None leaves it to the kind of session."""
    thinking: str = "off"
    reasoning: Literal["off", "on", "stream"] = "off"
    """Whether reasoning is shown in the conversation."""
    contribution: Contribution = NO_CONTRIBUTION
    """What the model's provider adds, when it is a plugin's."""
    chat: ChatFacts = ChatFacts()
    terminal: str = ""
    """The directory of the terminal the person is at."""
    sandbox: SandboxFacts | None = None
    sandbox_mode: str = "off"
    external_agents: bool = False
    """Whether work can be handed to agents of other makers."""
    completion_wake: bool = True
    """Whether a background command that ends wakes the agent."""
    files: tuple[WorkspaceFile, ...] | None = None
    """The workspace files as changed by hooks; None to load them from disk."""
    skills: PromptText | None = None
    extra: PromptText | None = None
    """What the caller adds for this turn."""
    warned: tuple[str, ...] = ()
    """Signatures of the file cuts this session was already warned of."""
    untrusted: bool = False
    """The workspace may hold somebody else's words."""
    shared: bool = False
    """Others than the owner take part, so private notes are left out."""
    light: bool = False
    """Of the workspace files HEARTBEAT.md alone, which a job does not get."""
    session_id: str = ""
    source: Literal["run", "estimate"] = "run"
    now: int = 0


class BuiltPrompt(Struct, frozen=True, kw_only=True):
    """A rendered prompt with its facts and report."""

    prompt: Prompt
    facts: PromptFacts
    report: PromptReport
    changed: tuple[str, ...] = ()
    """Pinned files that are not as they were."""


class PromptPreview(Struct, frozen=True, kw_only=True):
    """What the next run would be sent."""

    built: BuiltPrompt
    tools: tuple[ToolSpec, ...]
    """The schemas that would go with it."""
    window: int


class _Inputs(Struct, frozen=True):
    """All inputs of a prompt; compared to find out whether the last one can be reused."""

    what: PromptRequest
    loaded: tuple[WorkspaceFile, ...]
    defaults: AgentDefaults
    notes: tuple[PromptText, ...]
    root: str


MOST_FINDINGS = 5
"""What is told of one file."""
_ANY_KEY = SessionKey("main", MAIN)
_COMMIT = (PromptText("This workspace is a git repository: commit after edits.", "openclaw"),)


class PromptBuilder:
    """Builds prompts. Reuses an agent's last one when its inputs are equal, with a new date and session."""

    def __init__(self, about: PromptMachine, cache: FileCache, pins: BootstrapPins | None = None) -> None:
        self._about = about
        self._pins = pins
        self._cache = cache
        self._last: dict[tuple[str, bool, bool, bool], tuple[_Inputs, BuiltPrompt]] = {}
        self._options: dict[str, tuple[tuple[Any, ...], PromptOptions]] = {}

    def options(
        self,
        agent: ResolvedAgent,
        defaults: AgentDefaults,
        commands: CommandsSettings,
        secret: Callable[[], Secret],
        citations: Citations = "auto",
    ) -> PromptOptions:
        """The options of `agent`, resolved anew when the configuration changed."""
        given = (agent.entry, agent.is_default, defaults, commands, citations)
        known = self._options.get(agent.id)
        if known is None or known[0] != given:
            options = resolve(
                agent.entry, defaults, commands, is_default=agent.is_default, secret=secret, citations=citations
            )
            known = self._options[agent.id] = (given, options)
        return known[1]

    def make(self, what: PromptRequest, defaults: AgentDefaults) -> BuiltPrompt:
        key, workspace = what.key, what.workspace
        loaded, changed = files.load(workspace, cache=self._cache), list[str]()
        pinned = self._pins.settings if self._pins is not None else None
        if self._pins is not None and pinned is not None and pinned.current.bootstrap_pinning != "off":
            found, (loaded, changed) = loaded, self._pins.apply(workspace, loaded)
            if what.files is not None and loaded is not found:  # what hooks left as it was is held as well
                held = dict(zip(found, loaded, strict=True))
                what = structs.replace(what, files=tuple(held.get(file, file) for file in what.files))
        root = _repo_root(defaults.repo_root, workspace)
        checkout = (workspace / ".git").exists() if defaults.repo_root else root == str(workspace)
        inputs = _Inputs(
            # Of the key only agent and kind influence the prompt, and they are the cache key.
            what=structs.replace(what, key=_ANY_KEY, session_id="", now=0),
            loaded=loaded,
            defaults=defaults,
            notes=_COMMIT if checkout else (),
            root=root,
        )
        kind = (key.agent, key.is_subagent, key.is_cron, key.is_group)
        last = self._last.get(kind)
        if last is None or last[0] != inputs:
            last = self._last[kind] = (inputs, _build(what, self._about, inputs))
        built = last[1]
        dated = structs.replace(built.report, generated_at=what.now, session_id=what.session_id, session_key=str(key))
        return structs.replace(built, report=dated, changed=tuple(changed))


def _build(what: PromptRequest, about: PromptMachine, inputs: _Inputs) -> BuiltPrompt:
    """Builds the prompt for `what`, reduced to fit its model."""
    loaded, defaults = inputs.loaded, inputs.defaults
    injected = loaded if what.files is None else what.files
    found = budget.select_files(
        () if defaults.skip_bootstrap else injected,
        budget.kind_of(what.key, light=what.light, group=what.shared),
        heartbeats=what.options.heartbeats,
        known=loaded,
    )
    if what.untrusted:
        found = tuple(structs.replace(file, label="external") for file in found)
    limits = FileBudget(
        per_file=defaults.bootstrap_max_chars,
        total=defaults.bootstrap_total_max_chars,
        untrusted=defaults.bootstrap_untrusted_max_chars,
    )
    cut = budget.fit(found, limits)
    warning = defaults.bootstrap_prompt_truncation_warning
    warned, seen = budget.should_warn(cut, warning, what.warned)
    schemas = sum(tool.chars for tool in what.sent)
    room = max(500, token_budget(what.model.context_window) - estimate_tokens(schemas))
    fitted = fit(_facts(what, about, inputs, cut, warned), room)
    truncation = TruncationPart(
        warning_mode=warning,
        warning_shown=warned,
        prompt_warning_signature=cut.signature if cut.shortened else "",
        warning_signatures_seen=seen,
        truncated_files=sum(file.truncated for file in cut.files),
        near_limit_files=len(cut.near_limit),
        total_near_limit=cut.total_near_limit,
    )
    header = ReportHeader(
        source=what.source,
        provider=what.model.provider,
        model=what.model.id,
        sandbox=SandboxPart(mode=what.sandbox_mode, sandboxed=what.sandbox is not None),
        bootstrap_max_chars=cut.limits.per_file,
        bootstrap_total_max_chars=cut.limits.total,
        bootstrap_truncation=truncation if cut.shortened or cut.near_limit else None,
        degraded=fitted.degraded,
        findings=tuple(_findings(found)),
    )
    prompt = build(fitted.facts)
    return BuiltPrompt(prompt=prompt, facts=fitted.facts, report=report(prompt, fitted.facts, header, what.sent))


def with_changes(
    built: BuiltPrompt, prompt: Prompt, changes: tuple[ChangeLine, ...], tools: Sequence[ToolSpec]
) -> BuiltPrompt:
    """Replaces the prompt by the one plugins changed, and adds their changes to the report."""
    header = structs.replace(built.report, changes=changes)
    return structs.replace(built, prompt=prompt, report=report(prompt, built.facts, header, tools))


def _facts(what: PromptRequest, about: PromptMachine, inputs: _Inputs, cut: FileCut, warned: bool) -> PromptFacts:
    key, model, options, chat = what.key, what.model, what.options, what.chat
    return PromptFacts(
        workspace_dir=what.sandbox.container_workspace_dir if what.sandbox else str(what.workspace),
        sandbox=what.sandbox,
        mode=what.mode or ("minimal" if key.is_subagent or key.is_cron else "full"),
        tools=_tool_lines(what),
        fence_id=about.fence_id,
        context_files=cut.files if what.sandbox is None else tuple(_inside(what, file) for file in cut.files),
        truncation_notice=warned,
        workspace_notes=inputs.notes if what.sandbox is None or what.sandbox.workspace_access == "rw" else (),
        skills=what.skills,
        docs_path=about.docs_path,
        source_path=about.source_path,
        user_timezone=inputs.defaults.user_timezone or about.timezone,
        model_aliases=options.aliases,
        memory_citations=options.citations,
        delegation=options.delegation,
        acp_enabled=what.external_agents,
        completion_wake=what.completion_wake,
        authorized_senders=options.senders,
        # Only who answers a group by just speaking needs a word for silence.
        silent_replies="generic" if chat.group is not None and not chat.message_tool_only else "none",
        contribution=prompt_fit.resolve(
            model.provider, model.id, context_window=model.context_window, theirs=what.contribution
        ),
        runtime=RuntimeFacts(
            **{name: getattr(about, name) for name in ("host", "os", "arch", "python", "shell")},
            agent_id=key.agent,
            repo_root=inputs.root,
            model=model.ref,
            default_model=what.default_model,
            channel=chat.channel,
            chat_type=chat.chat_type,
            capabilities=chat.capabilities,
        ),
        inbound=chat.inbound,
        group=chat.group,
        message_tool_only=chat.message_tool_only,
        native_approvals=chat.native_approvals,
        control_ui=chat.control_ui,
        voice=chat.voice,
        reactions=chat.reactions,
        thinking=what.thinking,
        reasoning=what.reasoning,
        reasoning_tags=bool(model.compat.reasoning_tags),
        extra=what.extra,
        terminal=what.terminal,
        heartbeat=options.heartbeat,
    )


def _inside(what: PromptRequest, file: ContextFile) -> ContextFile:
    """A workspace file under the name it has in the sandbox; its bare name when it is not mounted there."""
    root, mount = f"{what.workspace}/", what.sandbox.agent_workspace_mount if what.sandbox else ""
    if not file.path.startswith(root):
        return file
    return structs.replace(file, path=f"{mount}/{file.path.removeprefix(root)}" if mount else file.name)


def _tool_lines(what: PromptRequest) -> tuple[ToolLine, ...]:
    sent = {spec.name for spec in what.sent}
    return tuple(ToolLine(spec.name, spec.summary, deferred=spec.name not in sent) for spec in what.tools)


def _findings(found: Sequence[WorkspaceFile]) -> list[str]:
    """Warnings about the files: unreadable, invalid bytes, hidden characters, injected instructions."""
    lines: list[str] = []
    for file in found:
        lines += [f"{file.name}: {text}" for text in (file.problem, file.note) if text]
        lines += [f"{file.name}: {finding}" for finding in _scanned(file.content)]
    return lines


@lru_cache(maxsize=64)
def _scanned(text: str) -> tuple[str, ...]:
    """Cached: files rarely change between turns."""
    found = scan.scan(text)
    more = (f"and {len(found) - MOST_FINDINGS} more",) if len(found) > MOST_FINDINGS else ()
    return (*(str(finding) for finding in found[:MOST_FINDINGS]), *more)


def entry_to_change(entry: AuditEntry) -> ChangeLine:
    return ChangeLine(**{name: getattr(entry, name) for name in ChangeLine.__struct_fields__})


def with_audit_entries(built: BuiltPrompt, entries: Sequence[AuditEntry], tools: Sequence[ToolSpec]) -> BuiltPrompt:
    """Adds audit entries to the report: changes made before the prompt was built."""
    return with_changes(built, built.prompt, tuple(map(entry_to_change, entries)), tools)


def _repo_root(configured: str | None, workspace: Path) -> str:
    """The repository the agent works in, if any."""
    if configured and Path(configured).expanduser().is_dir():
        return configured
    place = str(workspace)
    while not os.path.exists(os.path.join(place, ".git")):  # noqa: PTH110, PTH118 - looked at in every turn
        above = os.path.dirname(place)  # noqa: PTH120
        if above == place:
            return ""
        place = above
    return place
