"""`openclaw audit` and `openclaw prompt audit`: what was changed by whom, and whether the record of it is whole."""

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from openclaw.gateway.app import App
    from openclaw.trust.audit import AuditEntry


@click.group("audit")
def command() -> None:
    """What plugins changed: list it, and check that nobody has touched the record."""


@click.command("list")
@click.option("--run", "run_id", metavar="RUN", help="Only of this run, or of those whose id begins like this.")
@click.option("--plugin", metavar="ID", help="Only by this plugin.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True)
@click.option("--diff", "with_text", is_flag=True, help="Also the text that was added, where it is still on record.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def listed(run_id: str | None, plugin: str | None, limit: int, with_text: bool, as_json: bool) -> None:
    """Say what plugins changed or were refused, the latest first: which field, by whom, how much."""

    async def work(app: "App") -> None:
        import msgspec

        from openclaw.cli.output import print_json

        found = [entry for entry in app.audit.entries(run_id) if plugin in (None, entry.plugin)][:limit]
        texts = await _texts(app, found) if with_text else {}
        if as_json:
            documents = [msgspec.to_builtins(entry) for entry in found]
            print_json({"entries": [{**each, **_text(texts, each["seq"])} for each in documents]})
            return
        for entry in found:
            click.echo(_line(entry))
            for line in texts.get(entry.seq, "").splitlines():
                click.echo(f"      + {line}")
        if not found:
            click.echo("No plugin has changed anything.")

    _with_assistant(work)


@command.command("verify")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def verify(as_json: bool) -> int:
    """Check the record from its oldest entry to its newest. Exit code 1 when it was touched."""
    problems: list[str] = []

    async def work(app: "App") -> None:
        import asyncio

        import msgspec

        from openclaw.cli.output import print_json

        checked = await asyncio.to_thread(app.audit.verify, await app.archive.witnessed())
        problems.extend(checked.problems)
        if as_json:
            print_json({"ok": not problems, **msgspec.to_builtins(checked)})
            return
        for line in (*checked.problems, *checked.notes):
            click.echo(line)
        span = f"entries {checked.first} to {checked.last}" if checked.entries else "no entries"
        click.echo(f"{span}: " + ("the record was touched" if problems else "the record is whole"))

    _with_assistant(work)
    return 1 if problems else 0


command.add_command(listed)


def _line(entry: "AuditEntry") -> str:
    from openclaw.cli.output import when
    from openclaw.core.visible import printable

    change = f"refused: {entry.refused}" if entry.refused else f"{entry.before_chars:,} → {entry.after_chars:,} chars"
    note = f" ({entry.note})" if entry.note else ""
    run = f" run {entry.run_id[:8]}" if entry.run_id else ""
    return printable(f"{entry.seq:>5} {when(entry.at)}{run} {entry.plugin} {entry.hook} {entry.field}: {change}{note}")


def _text(texts: dict[int, str], seq: int) -> dict[str, Any]:
    return {"text": texts[seq]} if seq in texts else {}


async def _texts(app: "App", found: "list[AuditEntry]") -> dict[int, str]:
    """What entries put into prompts, found by digest among what the runs of theirs have on record."""
    from openclaw.core.errors import OpenClawError
    from openclaw.trust.audit import digest

    known: dict[str, str] = {}
    for run_id in {entry.run_id for entry in found if entry.run_id}:
        pieces: list[str] = []
        try:
            pieces += [piece.text for piece in (await app.archive.find(run_id)).prompt.sections]
            for call in (await app.accounts.recorder.calls(run_id))[:1]:
                pieces += [message.text for message in call.request.messages]
        except OpenClawError:
            pass
        known |= {digest(text): text for piece in pieces for text in _inside(piece)}
    return {entry.seq: known[entry.after_sha256] for entry in found if entry.after_sha256 in known}


def _inside(piece: str) -> list[str]:
    """A piece of a prompt, and what stands between the markers in it."""
    import re

    fenced = re.findall(r"<<<([A-Z_]+) [^\n]*>>>\n(.*?)\n<<<END_\1 ", piece, re.DOTALL)
    return [piece, piece.strip(), *(text for _, text in fenced)]


def _with_assistant(work: Any) -> None:
    from openclaw.cli.prompt import with_assistant

    with_assistant(work)
