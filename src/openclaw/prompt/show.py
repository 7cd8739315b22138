"""A report as people read it: `/context list` and `/context detail`."""

from collections.abc import Iterator, Sequence

from openclaw.core.text import tokens
from openclaw.prompt.report import ChangeLine, FileLine, PromptReport

TOP = 30
_CAUSES = {
    "per-file-limit": "over agents.defaults.bootstrapMaxChars",
    "total-limit": "over agents.defaults.bootstrapTotalMaxChars",
    "model-budget": "shortened to fit the model's window",
}


def render_list(report: PromptReport, *, session_tokens: int | None = None, context_tokens: int | None = None) -> str:
    """The short form."""
    return "\n".join(("🧠 Context breakdown", *_body(report), *_session(session_tokens, context_tokens)))


def render_detail(
    report: PromptReport,
    *,
    session_tokens: int | None = None,
    context_tokens: int | None = None,
    later: Sequence[ChangeLine] = (),
) -> str:
    """The long form: every section with its source, the largest skills and tools, and what plugins changed `later`."""
    return "\n".join(
        (
            "🧠 Context breakdown (detailed)",
            *_body(report),
            *_details(report),
            *map(change_line, later),
            *_session(session_tokens, context_tokens),
        )
    )


def _body(report: PromptReport) -> Iterator[str]:
    size = report.system_prompt
    yield f"Workspace: {report.workspace_dir}"
    yield f"Bootstrap max/file: {report.bootstrap_max_chars:,} chars"
    yield f"Bootstrap max/total: {report.bootstrap_total_max_chars:,} chars"
    yield f"Sandbox: mode={report.sandbox.mode} sandboxed={str(report.sandbox.sandboxed).lower()}"
    yield (
        f"System prompt ({report.source}): {_size(size.chars)} (Project Context {_size(size.project_context_chars)})"
    )
    yield from _warnings(report)
    yield "Injected workspace files:"
    for file in report.injected_workspace_files:
        yield f"- {file.name}: {_state(file)} | raw {_size(file.raw_chars)} | injected {_size(file.injected_chars)}"
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
        yield (
            f"- {line.id}: {line.injected_chars:,}{cut} chars (~{line.tokens:,} tok, {line.share:.1%}) | {side} | "
            f"{line.label} | {line.source}"
        )
    if report.skills.entries:
        yield "Largest skills:"
        for skill in sorted(report.skills.entries, key=lambda skill: -skill.block_chars)[:TOP]:
            yield f"- {skill.name}: {_size(skill.block_chars)}"
    if report.tools.entries:
        yield "Largest tools (schema):"
        for tool in sorted(report.tools.entries, key=lambda tool: (-tool.schema_chars, tool.name))[:TOP]:
            yield (
                f"- {tool.name}: {_size(tool.schema_chars)}, {tool.properties_count} parameters, "
                f"listed with {tool.summary_chars:,} chars"
            )


def _session(used: int | None, window: int | None) -> tuple[str, ...]:
    total = "unknown" if used is None else f"{used:,}"
    limit = "?" if window is None else f"{window:,}"
    return (f"Session tokens (cached): {total} total / ctx={limit}",)


def _state(file: FileLine) -> str:
    if file.missing:
        return "MISSING"
    if file.problem:
        return "UNREADABLE"
    return "TRUNCATED" if file.truncated else "OK"


def _size(chars: int) -> str:
    return f"{chars:,} chars (~{tokens(chars):,} tok)"
