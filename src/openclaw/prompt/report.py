"""Reports the composition of a prompt, in sizes and hashes, never its text; and renders reports for people."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Literal

from msgspec import Struct

from openclaw.core.text import Label, PromptText, estimate_tokens, utf16_length
from openclaw.core.tool import ToolSpec
from openclaw.prompt.build import Prompt
from openclaw.prompt.facts import PromptFacts, Section, ToolLine, canonical, clean_line
from openclaw.prompt.sections.tools import sort_tools, tool_bullet

_SKILL = re.compile(r"<skill>.*?</skill>", re.S)
_NAME = re.compile(r"<name>(.*?)</name>", re.S)


class _Part(Struct, frozen=True, kw_only=True, rename="camel"):
    """The base of everything in a report: camel case on the wire."""


class SectionLine(_Part, frozen=True, kw_only=True):
    """One section: source, size, and side of the cache boundary."""

    id: str
    heading: str = ""
    source: str
    label: Label
    side: Literal["stable", "dynamic"]
    raw_chars: int
    injected_chars: int
    bytes: int
    tokens: int
    share: float
    """Of the whole prompt, from 0 to 1."""
    hash: str
    carrier: str = ""
    """What it travels by to a runtime that takes the prompt in parts."""


class FileLine(_Part, frozen=True, kw_only=True):
    name: str
    path: str
    missing: bool = False
    raw_chars: int = 0
    injected_chars: int = 0
    truncated: bool = False
    problem: str = ""
    causes: tuple[str, ...] = ()


class SkillLine(_Part, frozen=True, kw_only=True):
    name: str
    block_chars: int


class SkillsPart(_Part, frozen=True, kw_only=True):
    prompt_chars: int = 0
    hash: str = ""
    entries: tuple[SkillLine, ...] = ()


class ToolEntry(_Part, frozen=True, kw_only=True):
    name: str
    summary_chars: int = 0
    summary_hash: str = ""
    schema_chars: int = 0
    schema_hash: str = ""
    properties_count: int = 0


class ToolsPart(_Part, frozen=True, kw_only=True):
    list_chars: int = 0
    schema_chars: int = 0
    entries: tuple[ToolEntry, ...] = ()


class SizePart(_Part, frozen=True, kw_only=True):
    chars: int
    hash: str
    project_context_chars: int
    non_project_context_chars: int


class TruncationPart(_Part, frozen=True, kw_only=True):
    """What was cut from the workspace files, and whether the model was told."""

    warning_mode: Literal["off", "once", "always"] = "always"
    warning_shown: bool = False
    prompt_warning_signature: str = ""
    warning_signatures_seen: tuple[str, ...] = ()
    truncated_files: int = 0
    near_limit_files: int = 0
    total_near_limit: bool = False


class ChangeLine(_Part, frozen=True, kw_only=True, omit_defaults=True):
    """A change by a plugin, or its refusal, with its audit entry."""

    plugin: str
    hook: str
    field: str
    before_chars: int = 0
    after_chars: int = 0
    refused: str = ""
    note: str = ""
    seq: int = 0
    hash: str = ""


class SandboxPart(_Part, frozen=True, kw_only=True):
    mode: str = "off"
    sandboxed: bool = False


class ReportHeader(_Part, frozen=True, kw_only=True):
    """The part of a report that comes from the run, not from the prompt."""

    source: Literal["run", "estimate"] = "run"
    generated_at: int = 0
    """Milliseconds since the epoch."""
    session_id: str = ""
    session_key: str = ""
    provider: str = ""
    model: str = ""
    bootstrap_max_chars: int = 20_000
    bootstrap_total_max_chars: int = 60_000
    bootstrap_truncation: TruncationPart | None = None
    sandbox: SandboxPart = SandboxPart()
    degraded: tuple[str, ...] = ()
    """What was given up to fit the model's window."""
    findings: tuple[str, ...] = ()
    """What scanning the files found."""
    changes: tuple[ChangeLine, ...] = ()
    """What plugins changed in the prompt and in the choice of the model."""


class PromptReport(ReportHeader, frozen=True, kw_only=True):
    """A header, and the composition of its prompt."""

    workspace_dir: str
    system_prompt: SizePart
    injected_workspace_files: tuple[FileLine, ...] = ()
    skills: SkillsPart = SkillsPart()
    tools: ToolsPart = ToolsPart()
    sections: tuple[SectionLine, ...] = ()
    hooks: tuple[str, ...] = ()
    """Sections a hook added or replaced, with who did."""


def report(prompt: Prompt, facts: PromptFacts, about: ReportHeader, specs: Sequence[ToolSpec] = ()) -> PromptReport:
    """Makes the report of `prompt`, rendered from `facts`; `specs` are the tools as sent to the provider.

    `about` may be an earlier report: its header is kept.
    """
    text = prompt.text
    chars = utf16_length(text)
    lines = tuple(_section_line(piece, chars) for piece in prompt.sections)
    # The line break before a section counts as part of it.
    context = sum(
        line.injected_chars + 1 for line in lines if line.id == "project_context" or line.id.startswith("file:")
    )
    return PromptReport(
        **{name: getattr(about, name) for name in ReportHeader.__struct_fields__},
        workspace_dir=clean_line(facts.workspace_dir),
        system_prompt=SizePart(
            chars=chars, hash=_hash(text), project_context_chars=context, non_project_context_chars=chars - context
        ),
        injected_workspace_files=tuple(
            FileLine(
                path=clean_line(file.path),
                **{name: getattr(file, name) for name in FileLine.__struct_fields__ if name != "path"},
            )
            for file in facts.context_files
        ),
        skills=_skills(facts.skills),
        tools=_tools(facts.tools, specs),
        sections=lines,
        hooks=tuple(f"{piece.id}: {piece.source}" for piece in prompt.sections if piece.id.startswith("hook:")),
    )


@lru_cache(maxsize=512)
def _section_line(piece: Section, total: int) -> SectionLine:
    """Cached: most sections are the same from turn to turn."""
    text = piece.rendered
    chars = utf16_length(text)
    return SectionLine(
        id=piece.id,
        heading=piece.heading,
        source=piece.source,
        label=piece.label,
        side="stable" if piece.stable else "dynamic",
        raw_chars=piece.raw_chars or chars,
        injected_chars=chars,
        bytes=len(text.encode()),
        tokens=estimate_tokens(chars),
        share=round(chars / total, 4) if total else 0.0,
        hash=_hash(text),
        carrier=piece.carrier,
    )


def _skills(catalog: PromptText | None) -> SkillsPart:
    if not catalog:
        return SkillsPart()
    blocks = [found.group() for found in _SKILL.finditer(catalog.text)]
    entries = tuple(
        SkillLine(
            name=found[1].strip() if (found := _NAME.search(text)) else "(unnamed)", block_chars=utf16_length(text)
        )
        for text in blocks
    )
    return SkillsPart(prompt_chars=utf16_length(catalog.text), hash=_hash(catalog.text), entries=entries)


def _tools(lines: tuple[ToolLine, ...], specs: Sequence[ToolSpec]) -> ToolsPart:
    schemas = {canonical(spec.name): spec for spec in specs}
    shown = {canonical(line.name): tool_bullet(line) for line in sort_tools(lines)}
    entries = tuple(_tool(name, shown.get(name, ""), schemas.get(name)) for name in dict.fromkeys((*shown, *schemas)))
    return ToolsPart(
        list_chars=utf16_length("\n".join(shown.values())),
        schema_chars=sum(entry.schema_chars for entry in entries),
        entries=entries,
    )


def _tool(name: str, line: str, spec: ToolSpec | None) -> ToolEntry:
    if spec is None:
        return _tool_entry(name, line, b"", 0)
    properties = spec.parameters.get("properties")
    return _tool_entry(spec.name, line, spec.schema, len(properties) if isinstance(properties, dict) else 0)


@lru_cache(maxsize=512)
def _tool_entry(name: str, line: str, schema: bytes, properties: int) -> ToolEntry:
    text = schema.decode()
    return ToolEntry(
        name=name,
        summary_chars=utf16_length(line),
        summary_hash=_hash(line) if line else "",
        schema_chars=utf16_length(text),
        schema_hash=_hash(text) if text else "",
        properties_count=properties,
    )


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


# Rendering.

TOP = 30
_CAUSES = {
    "per-file-limit": "over agents.defaults.bootstrapMaxChars",
    "total-limit": "over agents.defaults.bootstrapTotalMaxChars",
    "model-budget": "shortened to fit the model's window",
}


def render_list(report: PromptReport, *, session_tokens: int | None = None, window: int = 0) -> str:
    """The short form."""
    return "\n".join(("🧠 Context breakdown", *_body(report), _session(session_tokens, window)))


def render_detail(
    report: PromptReport, *, session_tokens: int | None = None, window: int = 0, later: Sequence[ChangeLine] = ()
) -> str:
    """The long form: every section with its source, the largest skills and tools, and plugin changes `later`."""
    lines = (*_body(report), *_details(report), *map(change_line, later), _session(session_tokens, window))
    return "\n".join(("🧠 Context breakdown (detailed)", *lines))


def _body(report: PromptReport) -> Iterator[str]:
    size = report.system_prompt
    yield f"Workspace: {report.workspace_dir}"
    yield f"Bootstrap max/file: {report.bootstrap_max_chars:,} chars"
    yield f"Bootstrap max/total: {report.bootstrap_total_max_chars:,} chars"
    yield f"Sandbox: mode={report.sandbox.mode} sandboxed={str(report.sandbox.sandboxed).lower()}"
    yield f"System prompt ({report.source}): {_size(size.chars)} (Project Context {_size(size.project_context_chars)})"
    carriers = dict.fromkeys(line.carrier for line in report.sections if line.carrier)
    if carriers:
        sums = {name: sum(line.injected_chars for line in report.sections if line.carrier == name) for name in carriers}
        yield "Sent by: " + ", ".join(f"{name} {_size(chars)}" for name, chars in sums.items())
    yield from _warnings(report)
    yield "Injected workspace files:"
    for file in report.injected_workspace_files:
        marks = {"MISSING": file.missing, "UNREADABLE": file.problem, "TRUNCATED": file.truncated}
        state = next((mark for mark, applies in marks.items() if applies), "OK")
        yield f"- {file.name}: {state} | raw {_size(file.raw_chars)} | injected {_size(file.injected_chars)}"
    yield (
        f"Skills list (system prompt text): {_size(report.skills.prompt_chars)} ({len(report.skills.entries):,} skills)"
    )
    if report.skills.entries:
        yield "Skills: " + ", ".join(skill.name for skill in report.skills.entries)
    yield f"Tool list (system prompt text): {_size(report.tools.list_chars)}"
    yield f"Tool schemas (JSON): {_size(report.tools.schema_chars)} (counts towards the context, not shown as text)"
    yield "Tools: " + (", ".join(tool.name for tool in report.tools.entries) or "(none)")


def _warnings(report: PromptReport) -> Iterator[str]:
    shortened = [file for file in report.injected_workspace_files if file.truncated]
    if shortened:
        yield "⚠ Workspace files were shortened (the files on disk are untouched):"
    for file in shortened:
        why = "; ".join(_CAUSES.get(cause, cause) for cause in file.causes)
        sent = f"{file.injected_chars:,} chars" if file.injected_chars else "left out"
        yield f"- {file.name}: {file.raw_chars:,} → {sent} ({why})"
    for file in report.injected_workspace_files:
        if file.problem:
            yield f"⚠ {file.name}: {file.problem}"
    for what in report.degraded:
        yield f"⚠ To fit the model: {what}"
    for what in report.findings:
        yield f"⚠ {what}"
    for what in report.hooks:
        yield f"Hook: {what}"
    for change in report.changes:
        yield change_line(change)


def change_line(change: ChangeLine) -> str:
    """A change by a plugin, in one line."""
    sizes = f"{change.before_chars:,} → {change.after_chars:,} chars"
    done = f"refused: {change.refused}" if change.refused else f"{sizes}, audit entry {change.seq}"
    note = f", {change.note}" if change.note else ""
    return f"Changed by plugin {change.plugin} ({change.hook}): {change.field}, {done}{note}"


def _details(report: PromptReport) -> Iterator[str]:
    yield "Sections:"
    for line in report.sections:
        side = "above" if line.side == "stable" else "below"
        cut = f" of {line.raw_chars:,}" if line.raw_chars > line.injected_chars else ""
        by = f" | by {line.carrier}" if line.carrier else ""
        yield (
            f"- {line.id}: {line.injected_chars:,}{cut} chars (~{line.tokens:,} tok, {line.share:.1%}) | {side} | "
            f"{line.label} | {line.source}{by}"
        )
    if report.skills.entries:
        yield "Largest skills:"
        for skill in sorted(report.skills.entries, key=attrgetter("block_chars"), reverse=True)[:TOP]:
            yield f"- {skill.name}: {_size(skill.block_chars)}"
    if report.tools.entries:
        yield "Largest tools (schema):"
        by_name = sorted(report.tools.entries, key=attrgetter("name"))
        for tool in sorted(by_name, key=attrgetter("schema_chars"), reverse=True)[:TOP]:
            yield (
                f"- {tool.name}: {_size(tool.schema_chars)}, {tool.properties_count} parameters, "
                f"listed with {tool.summary_chars:,} chars"
            )


def _session(used: int | None, window: int) -> str:
    total = "unknown" if used is None else f"{used:,}"
    return f"Session tokens (cached): {total} total / ctx={f'{window:,}' if window else '?'}"


def _size(chars: int) -> str:
    return f"{chars:,} chars (~{estimate_tokens(chars):,} tok)"
