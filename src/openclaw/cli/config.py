"""`openclaw config`: read, change and check the configuration file."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from openclaw.cli.render import print_json
from openclaw.config import tree as config_tree
from openclaw.config.check import lookup as check_lookup
from openclaw.config.edit import Editor
from openclaw.config.load import analyse_text, problems_of, read
from openclaw.config.schema import json_schema
from openclaw.config.source import parse, parse_value
from openclaw.config.tree import format_path
from openclaw.core.errors import ConfigError, InvalidRequest, NotFound
from openclaw.process.environment import locate

if TYPE_CHECKING:
    from openclaw.config.check import ConfigProblem
    from openclaw.config.edit import ConfigChange

NEXT_START = "A running gateway takes the new values up by itself; everything else uses them at its next start."
PROTECTED = ("agents.defaults.models", "agents.entries", "models.providers", "plugins.entries", "auth.profiles")
"""Maps that lose an entry only when the caller says so."""

_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group()
def config_command() -> None:
    """Read, change and check the configuration file.

    A PATH names a setting: agents.defaults.model, agents.list[0].id, models["a.b"].
    """


@config_command.command()
@click.argument("path", required=False, default="")
@_json
def get(path: str, as_json: bool) -> None:
    """Print a value; credentials are blotted out."""

    try:
        value = _editor().get(path)
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
@click.option("--dry-run", is_flag=True, help="Check the change, write nothing.")
@_json
def set_(path: str, value: str, strict_json: bool, merge: bool, replace: bool, dry_run: bool, as_json: bool) -> None:
    """Write VALUE at PATH. VALUE is JSON5, or plain text."""

    editor = _editor()
    data = _parse_value(value, strict_json)
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
@click.option("--dry-run", is_flag=True, help="Check the change, write nothing.")
@_json
def unset(path: str, dry_run: bool, as_json: bool) -> None:
    """Take the value at PATH away, so that its default applies."""
    _report(_editor().unset(path, dry_run=dry_run), as_json)


@config_command.command()
@click.argument("file", type=click.File("r", encoding="utf-8"), default="-")
@click.option("--replace-path", "replace_paths", multiple=True, help="A list that may lose entries; can be repeated.")
@click.option("--base-hash", help="Refuse when the file no longer has this hash.")
@click.option("--allow-clobber", is_flag=True, help="Write even if most of the file would be lost.")
@click.option("--dry-run", is_flag=True, help="Check the change, write nothing.")
@_json
def patch(
    file: Any, replace_paths: tuple[str, ...], base_hash: str | None, allow_clobber: bool, dry_run: bool, as_json: bool
) -> None:
    """Merge a JSON5 document from FILE (or standard input): objects merge, null removes."""

    change = _editor().patch(
        parse(_read(file), "the patch"),
        replace_paths=replace_paths,
        base_hash=base_hash,
        dry_run=dry_run,
        allow_clobber=allow_clobber,
    )
    _report(change, as_json)


@config_command.command()
@click.argument("file", type=click.File("r", encoding="utf-8"), default="-")
@click.option("--base-hash", help="Refuse when the file no longer has this hash.")
@click.option("--allow-clobber", is_flag=True, help="Write even if most of the file would be lost.")
@click.option("--dry-run", is_flag=True, help="Check the change, write nothing.")
@_json
def apply(file: Any, base_hash: str | None, allow_clobber: bool, dry_run: bool, as_json: bool) -> None:
    """Replace the whole configuration by FILE (or standard input)."""
    change = _editor().apply(_read(file), base_hash=base_hash, dry_run=dry_run, allow_clobber=allow_clobber)
    _report(change, as_json)


@config_command.command()
@_json
def validate(as_json: bool) -> None:
    """Check the file; exit code 1 when it cannot be used."""

    editor = _editor()
    path = editor.home.config
    issues: tuple[ConfigProblem, ...] = ()
    warnings: tuple[ConfigProblem, ...] = ()
    try:
        seen = analyse_text(read(path).text, editor.home, editor.environ)
        issues, warnings = seen.errors, seen.warnings
    except ConfigError as error:
        issues = problems_of(error)
    if as_json:
        print_json({"valid": not issues, "path": str(path), "issues": _plain(issues), "warnings": _plain(warnings)})
    else:
        _print_warnings(warnings)
        for problem in issues:
            click.echo(f"error: {problem}", err=True)
        click.echo(f"{path}: {'cannot be used' if issues else 'valid'}")
    if issues:
        raise click.exceptions.Exit(1)


@config_command.command()
@click.argument("path", required=False)
@_json
def schema(path: str | None, as_json: bool) -> None:
    """Print the JSON Schema of the file, or what is known about PATH."""

    if path is not None:
        _describe(path, as_json)
        return

    print_json(json_schema())


@config_command.command()
@click.argument("path", required=False, default="")
@_json
def lookup(path: str, as_json: bool) -> None:
    """Explain a setting: type, default, limits, what is below it."""
    _describe(path, as_json)


@config_command.command("file")
@_json
def file_(as_json: bool) -> None:
    """Print where the configuration file is."""

    path = _editor().home.config
    if as_json:
        found = read(path)
        print_json({"path": str(path), "exists": found.exists, "hash": found.hash})
    else:
        click.echo(str(path))


def _editor() -> "Editor":

    return Editor(locate(os.environ, Path.home(), Path.cwd()), os.environ)


def _read(file: Any) -> str:

    try:
        return str(file.read())
    except (OSError, UnicodeDecodeError):
        raise InvalidRequest(f"cannot read {file.name}: it must be UTF-8 text") from None


def _parse_value(text: str, strict: bool) -> Any:

    try:
        return parse_value(text, "VALUE")
    except ConfigError as error:
        if strict:
            raise InvalidRequest(error.message) from None
        return text


def _refuse_loss(parts: tuple[str | int, ...], current: Any, new: Any) -> None:

    guarded = format_path(parts) in PROTECTED or format_path(parts[:2]) == "models.providers"
    if not guarded or not isinstance(current, dict):
        return
    lost = sorted(set(current) - set(new if isinstance(new, dict) else ()))
    if lost:
        raise InvalidRequest(
            f"{format_path(parts)} would lose {', '.join(lost)}: add --merge to keep them or --replace if that is meant"
        )


def _default_hint(path: str) -> str:

    try:
        setting = check_lookup(path)
    except NotFound as error:
        return f" ({error.message})"
    if setting.children or setting.default is None:
        return ""

    return f"; its default is {json.dumps(setting.default)}"


def _describe(path: str, as_json: bool) -> None:

    setting = check_lookup(path)
    if as_json:
        print_json(msgspec.to_builtins(setting))
        return
    click.echo(f"{setting.path or 'the whole file'}: {setting.type}{' (a credential)' if setting.sensitive else ''}")
    if setting.doc:
        click.echo(f"  {setting.doc}")
    if setting.required:
        click.echo("  required")
    elif setting.default is not None and not setting.children:
        click.echo(f"  default {json.dumps(setting.default)}")
    for child in setting.children:
        click.echo(f"    {child.key}: {child.type}{'  ' + child.doc if child.doc else ''}")


def _report(change: "ConfigChange", as_json: bool) -> None:

    if as_json:
        print_json(
            {
                "ok": True,
                "path": str(change.path),
                "changedPaths": list(change.changed),
                "hash": change.after,
                "written": change.written,
                "warnings": _plain(change.warnings),
            }
        )
    else:
        _print_warnings(change.warnings)
        for path in change.changed:
            click.echo(f"{'changed' if change.written else 'would change'} {path}")
        if not change.changed:
            click.echo("nothing to change")
    if change.written:
        click.echo(NEXT_START, err=True)


def _plain(problems: "tuple[ConfigProblem, ...]") -> Any:

    return msgspec.to_builtins(problems)


def _print_warnings(warnings: "tuple[ConfigProblem, ...]") -> None:
    for problem in warnings:
        click.echo(f"warning: {problem}", err=True)
