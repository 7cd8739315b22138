"""`openclaw config`: read, change and check the configuration file."""

import json
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from openclaw.cli.home import open_editor
from openclaw.cli.render import print_json, show
from openclaw.config import tree as config_tree
from openclaw.config.check import ConfigProblem
from openclaw.config.check import lookup as look_up
from openclaw.config.edit import RECORDED_AS, ConfigChange, open_log
from openclaw.config.load import analyse_text, problems_of, read
from openclaw.config.schema import json_schema
from openclaw.config.source import parse, parse_value
from openclaw.config.tree import format_path
from openclaw.core.errors import ConfigError, InvalidRequest, NotFound
from openclaw.process.environment import Environment

NEXT_START = "A running gateway takes the new values up by itself; everything else uses them at its next start."
PROTECTED = ("agents.defaults.models", "agents.entries", "models.providers", "plugins.entries", "auth.profiles")
"""Maps that lose an entry only when the caller says so."""

JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
DRY_RUN = click.option("--dry-run", is_flag=True, help="Check the change, write nothing.")
FILE = click.argument("file", type=click.File("r", encoding="utf-8"), default="-")
BASE_HASH = click.option("--base-hash", help="Refuse when the file no longer has this hash.")
ALLOW_CLOBBER = click.option("--allow-clobber", is_flag=True, help="Write even if most of the file would be lost.")


@click.group()
def config_command() -> None:
    """Read, change and check the configuration file.

    A PATH names a setting: agents.defaults.model, agents.list[0].id, models["a.b"].
    """


@config_command.command()
@click.argument("path", required=False, default="")
@JSON
def get(path: str, as_json: bool) -> None:
    """Print a value; credentials are blotted out."""
    try:
        value = open_editor().get(path)
    except NotFound as error:
        raise NotFound(error.message + _default_hint(path)) from None
    if isinstance(value, str) and not as_json:
        click.echo(value)
    else:
        print_json(value)


@config_command.command("set")
@click.argument("path")
@click.argument("value")
@click.option("--strict-json", is_flag=True, help="VALUE must be JSON5; otherwise text that is not is taken as it is.")
@click.option("--merge", is_flag=True, help="Merge an object into the one that is there.")
@click.option("--replace", is_flag=True, help="Allow a map such as models.providers to lose entries.")
@DRY_RUN
@JSON
def set_(path: str, value: str, strict_json: bool, merge: bool, replace: bool, dry_run: bool, as_json: bool) -> None:
    """Write VALUE at PATH. VALUE is JSON5, or plain text."""
    editor = open_editor()
    data: Any = value
    try:
        data = parse_value(value, "VALUE")
    except ConfigError as error:
        if strict_json:
            raise InvalidRequest(error.message) from None
    parts = config_tree.parse_path(path)
    source = read(editor.home.config)
    whole = parse(source.text, str(source.path))
    current = config_tree.find(whole, parts) if config_tree.has(whole, parts) else None
    if merge:
        data = config_tree.merge(current, data)
    elif not replace:
        _refuse_loss(parts, current, data)
    # The base hash makes sure that the merged value is written only over the file it was merged with.
    base_hash = source.hash if merge else None
    _report(editor.set(path, data, base_hash=base_hash, dry_run=dry_run), as_json)


@config_command.command()
@click.argument("path")
@DRY_RUN
@JSON
def unset(path: str, dry_run: bool, as_json: bool) -> None:
    """Take the value at PATH away, so that its default applies."""
    _report(open_editor().unset(path, dry_run=dry_run), as_json)


@config_command.command()
@FILE
@click.option("--replace-path", "replace_paths", multiple=True, help="A list that may lose entries; can be repeated.")
@BASE_HASH
@ALLOW_CLOBBER
@DRY_RUN
@JSON
def patch(file: Any, as_json: bool, **how: Any) -> None:
    """Merge a JSON5 document from FILE (or standard input): objects merge, null removes."""
    _report(open_editor().patch(parse(_read(file), "the patch"), **how), as_json)


@config_command.command()
@FILE
@BASE_HASH
@ALLOW_CLOBBER
@DRY_RUN
@JSON
def apply(file: Any, as_json: bool, **how: Any) -> None:
    """Replace the whole configuration by FILE (or standard input)."""
    _report(open_editor().apply(_read(file), **how), as_json)


@config_command.command()
@JSON
def validate(as_json: bool) -> int:
    """Check the file; exit code 1 when it cannot be used."""
    editor = open_editor()
    path = editor.home.config
    issues: tuple[ConfigProblem, ...] = ()
    warnings: tuple[ConfigProblem, ...] = ()
    try:
        seen = analyse_text(read(path).text, editor.home, editor.environ)
        issues, warnings = seen.errors, seen.warnings
    except ConfigError as error:
        issues = problems_of(error)
    if not as_json:
        for kind, problems in (("warning", warnings), ("error", issues)):
            for problem in problems:
                click.echo(f"{kind}: {problem}", err=True)
    plain = {"issues": msgspec.to_builtins(issues), "warnings": msgspec.to_builtins(warnings)}
    verdict = f"{path}: {'cannot be used' if issues else 'valid'}"
    show({"valid": not issues, "path": str(path), **plain}, verdict, as_json)
    return 1 if issues else 0


@config_command.command()
@click.argument("path", required=False)
@JSON
def schema(path: str | None, as_json: bool) -> None:
    """Print the JSON Schema of the file, or what is known about PATH."""
    if path is not None:
        _describe(path, as_json)
    else:
        print_json(json_schema())


@config_command.command()
@click.argument("path", required=False, default="")
@JSON
def lookup(path: str, as_json: bool) -> None:
    """Explain a setting: type, default, limits, what is below it."""
    _describe(path, as_json)


@config_command.command("file")
@JSON
def file_(as_json: bool) -> None:
    """Print where the configuration file is."""
    found = read(open_editor().home.config)
    show({"path": str(found.path), "exists": found.exists, "hash": found.hash}, str(found.path), as_json)


def _read(file: Any) -> str:
    try:
        return str(file.read())
    except (OSError, UnicodeDecodeError):
        raise InvalidRequest(f"cannot read {file.name}: it must be UTF-8 text") from None


def _refuse_loss(parts: tuple[str | int, ...], current: Any, new: Any) -> None:
    guarded = format_path(parts) in PROTECTED or format_path(parts[:2]) == "models.providers"
    if not guarded or not isinstance(current, dict):
        return
    lost = sorted(set(current) - set(new if isinstance(new, dict) else ()))
    if lost:
        raise InvalidRequest(
            f"{format_path(parts)} would lose {', '.join(lost)}: add --merge to keep them or --replace if that is meant"
        )


@config_command.command("log")
@click.option("--limit", type=int, default=50, show_default=True, help="The last so many changes.")
@JSON
def log_command(limit: int, as_json: bool) -> int:
    """Who changed which settings, and when. Exits with 1 when the record was altered."""
    log = open_log(Environment.of_process().home)
    entries = log.entries(limit=limit, plugin=RECORDED_AS)
    problems = log.verify().problems
    document = {"ok": not problems, "problems": list(problems), "changes": msgspec.to_builtins(entries)}
    times = [datetime.fromtimestamp(entry.at / 1000, UTC).astimezone() for entry in entries]
    lines = [
        f"{at:%Y-%m-%d %H:%M}  {entry.note}: {entry.field or '-'}" for at, entry in zip(times, entries, strict=True)
    ]
    show(document, [*(lines or ["no change is on record"]), *(f"altered: {problem}" for problem in problems)], as_json)
    return 1 if problems else 0


def _default_hint(path: str) -> str:
    try:
        setting = look_up(path)
    except NotFound as error:
        return f" ({error.message})"
    if setting.children or setting.default is None:
        return ""
    return f"; its default is {json.dumps(setting.default)}"


def _describe(path: str, as_json: bool) -> None:
    setting = look_up(path)
    lines = [f"{setting.path or 'the whole file'}: {setting.type}{' (a credential)' if setting.sensitive else ''}"]
    if setting.doc:
        lines.append(f"  {setting.doc}")
    if setting.required:
        lines.append("  required")
    elif setting.default is not None and not setting.children:
        lines.append(f"  default {json.dumps(setting.default)}")
    lines += [f"    {child.key}: {child.type}{'  ' + child.doc if child.doc else ''}" for child in setting.children]
    show(msgspec.to_builtins(setting), lines, as_json)


def _report(change: ConfigChange, as_json: bool) -> None:
    for problem in () if as_json else change.warnings:
        click.echo(f"warning: {problem}", err=True)
    document = {
        "ok": True,
        "path": str(change.path),
        "changedPaths": list(change.changed),
        "hash": change.after,
        "written": change.written,
        "warnings": msgspec.to_builtins(change.warnings),
    }
    lines = [f"{'changed' if change.written else 'would change'} {path}" for path in change.changed]
    show(document, lines or "nothing to change", as_json)
    if change.written:
        click.echo(NEXT_START, err=True)
