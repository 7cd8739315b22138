"""Edits the configuration file: by path, validated before writing, comments kept, with backups."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from openclaw.config import files, load, redact, source, tree
from openclaw.config.check import ConfigProblem
from openclaw.config.load import ConfigAnalysis, ConfigSource, InvalidConfig, analyse_text, read
from openclaw.config.source import parse
from openclaw.core.errors import ConfigError, Conflict, InvalidRequest, NotFound
from openclaw.process.environment import Home
from openclaw.security.audit import AuditChange, digest

if TYPE_CHECKING:
    from openclaw.security.audit_log import AuditLog

GUARDED_BYTES = 512
"""A file smaller than this may shrink without being treated as an accident."""

REFUSED = "nothing was written, because the result could not be used"
LOST_COMMENTS = (
    "the change could not be made in place: the file was written anew and its comments are only in the backup"
)


class ConfigChange(Struct, frozen=True, kw_only=True):
    """What an edit did, or would do."""

    path: Path
    before: str
    """Hash of the file before; empty when there was none."""
    after: str
    changed: tuple[str, ...] = ()
    warnings: tuple[ConfigProblem, ...] = ()
    written: bool = False


class Editor:
    """Reads and changes the configuration of one home.

    Every change takes `base_hash`, the hash the caller saw; when the file has another one by now, nothing is written
    and `Conflict` is raised. Without it the change applies to whatever is there.
    """

    def __init__(self, home: Home, environ: Mapping[str, str], who: str = "command line") -> None:
        """`who` changes it, for the record."""
        self.home = home
        self.environ = environ
        self._who = who

    def by(self, who: str) -> "Editor":
        """The same editor in somebody else's hands."""
        return Editor(self.home, self.environ, who)

    def get(self, path: str = "") -> Any:
        """The redacted value at `path`; everything without a path."""
        parts = tree.parse_path(path) if path else ()
        data = self._resolve(parse(read(self.home.config).text, str(self.home.config))).data
        return redact.redact(tree.find(data, parts), parts)

    def set(self, path: str, value: Any, *, base_hash: str | None = None, dry_run: bool = False) -> ConfigChange:
        """Writes `value` at `path`."""
        return self._change(partial(tree.put, path=tree.parse_path(path), value=value), base_hash, dry_run)

    def unset(self, path: str, *, base_hash: str | None = None, dry_run: bool = False) -> ConfigChange:
        """Removes the value at `path`, so that its default applies."""
        parts = tree.parse_path(path)

        def without(data: dict[str, Any]) -> Any:
            resolved = self._resolve(data)
            if not tree.has(data, parts) and tree.has(resolved.data, parts):
                raise _included(parts, resolved.files)
            return tree.drop(data, parts)

        return self._change(without, base_hash, dry_run)

    def patch(
        self,
        patch: dict[str, Any],
        *,
        replace_paths: tuple[str, ...] = (),
        base_hash: str | None = None,
        dry_run: bool = False,
        allow_clobber: bool = False,
    ) -> ConfigChange:
        """Applies a JSON merge patch; lists named in `replace_paths` may lose entries."""
        replace = {tree.parse_path(path) for path in replace_paths}
        merge = partial(tree.merge, patch=patch, replace=replace)
        return self._change(merge, base_hash, dry_run, guarded=not allow_clobber)

    def apply(
        self, text: str, *, base_hash: str | None = None, dry_run: bool = False, allow_clobber: bool = False
    ) -> ConfigChange:
        """Replaces the whole file by `text`, which keeps its own comments."""
        with self._writing(dry_run):
            before = self._current(base_hash)
            given = parse(text, "the new configuration")
            try:
                old = parse(before.text, str(self.home.config))
            except ConfigError:
                old = {}  # a file that cannot be read is what `apply` is there to repair
            new = redact.restore(given, old)
            text = source.rewrite(text, tree.diff(given, new))
            seen = analyse_text(text, self.home, self.environ)
            if seen.errors:
                raise InvalidConfig(seen.errors, self.home.config, REFUSED)
            if not allow_clobber:
                self._guard(before, text, old, new, dry_run)
            return self._finish(before, text, tree.changed_paths(old, new), seen.warnings, dry_run)

    def _change(
        self,
        transform: Callable[[dict[str, Any]], Any],
        base_hash: str | None,
        dry_run: bool,
        *,
        guarded: bool = False,
    ) -> ConfigChange:
        with self._writing(dry_run):
            before = self._current(base_hash)
            old = parse(before.text, str(self.home.config))
            new = redact.restore(transform(old), old)
            edits = tree.diff(old, new)
            if not edits:
                return ConfigChange(path=self.home.config, before=before.hash, after=before.hash)
            text, lost = _rewrite(before.text, edits, new)
            warnings = self._judge(before.text, text, edits)
            if guarded:
                self._guard(before, text, old, new, dry_run)
            return self._finish(before, text, tree.changed_paths(old, new), (*lost, *warnings), dry_run)

    @contextmanager
    def _writing(self, dry_run: bool) -> Iterator[None]:
        for name in ("OPENCLAW_CONFIG_READONLY", "OPENCLAW_NIX_MODE"):
            if self.environ.get(name) == "1":
                raise InvalidRequest(f"the configuration is read-only: {name}=1 is set")
        path = self.home.config
        if path.is_symlink():
            raise ConfigError(
                f"{path} is a symbolic link and is not written: set OPENCLAW_CONFIG_PATH to the file it points to",
                file=str(path),
            )
        if dry_run:
            yield
            return
        with files.hold_lock(path):
            files.remove_temporary(path)
            yield

    def _current(self, base_hash: str | None) -> ConfigSource:
        found = read(self.home.config)
        if base_hash is not None and base_hash != found.hash:
            raise Conflict(f"{self.home.config} was changed by someone else: read it again and repeat the change")
        return found

    def _resolve(self, data: dict[str, Any]) -> load.Resolved:
        return load.resolve_includes(data, self.home.config, self.environ)

    def _judge(self, old: str, new: str, edits: list[tree.TreeEdit]) -> tuple[ConfigProblem, ...]:
        """The warnings a change gives cause for; refuses one that adds errors or does not have the effect asked for."""
        after = analyse_text(new, self.home, self.environ)
        try:
            before = analyse_text(old, self.home, self.environ)
        except ConfigError:
            before = None  # an include was broken, and the change repaired it
        worse = tuple(problem for problem in after.errors if before is None or problem not in before.errors)
        if worse:
            raise InvalidConfig(worse, self.home.config, REFUSED)
        if before is None:
            return after.warnings
        if before.files:
            _refuse_included(parse(old, str(self.home.config)), before, after, edits)
        return tuple(problem for problem in after.warnings if problem not in before.warnings)

    def _guard(self, before: ConfigSource, text: str, old: Any, new: Any, dry_run: bool) -> None:
        """Refuses a write that looks like an accident, and saves the rejected text beside the file."""
        mode = ("gateway", "mode")
        if tree.has(old, mode) and not tree.has(new, mode):
            why = "gateway.mode would be lost"
        elif len(before.text) >= GUARDED_BYTES and len(text) * 2 < len(before.text):
            why = f"the file would shrink from {len(before.text)} to {len(text)} characters"
        else:
            return
        data = text.encode()
        kept = self.home.config.with_name(f"{self.home.config.name}.rejected.{files.digest(data)[:12]}")
        if not dry_run:
            files.replace(kept, data)
        raise InvalidRequest(
            f"refused: {why}. Allow it explicitly (--allow-clobber) if that is meant; what was to be written is in"
            f" {kept}"
        )

    def _finish(
        self,
        before: ConfigSource,
        text: str,
        changed: tuple[str, ...],
        warnings: tuple[ConfigProblem, ...],
        dry_run: bool,
    ) -> ConfigChange:
        data = text.encode()
        if not dry_run:
            record_change(self.home, self._who, "edit", changed, before.text, text)
            files.replace(self.home.config, data, backup=before.text.encode() if before.exists else None)
        return ConfigChange(
            path=self.home.config,
            before=before.hash,
            after=files.digest(data),
            changed=changed,
            warnings=warnings,
            written=not dry_run,
        )


LOGGED_CHARS = 400
RECORDED_AS = "config"


def open_log(home: Home) -> "AuditLog":
    """The record of changes. Its writer brings asyncio along, which who only reads settings does without."""
    from openclaw.process.tasks import SystemClock
    from openclaw.security.audit_log import AuditLog

    return AuditLog(home.state, SystemClock())


def record_change(home: Home, who: str, how: str, changed: tuple[str, ...], before: str, after: str) -> None:
    """Puts a change on record before it is made: who, which settings, digests of the file; never a value."""
    paths = ", ".join(changed)
    paths = paths if len(paths) <= LOGGED_CHARS else f"{paths[:LOGGED_CHARS]}…"
    change = AuditChange(plugin=RECORDED_AS, hook=how, field=paths, before=before, after=after, note=who)
    open_log(home).append([change])


def record_found(home: Home, changed: tuple[str, ...], text: str) -> None:
    """Records a change that somebody made in the file itself, unless it is on record already."""
    last = next(iter(open_log(home).entries(limit=1, plugin=RECORDED_AS)), None)
    if last is None or last.after_sha256 != digest(text):
        record_change(home, "somebody, in the file itself", "file", changed, "", text)


def _rewrite(text: str, edits: list[tree.TreeEdit], wanted: Any) -> tuple[str, tuple[ConfigProblem, ...]]:
    """The new text: edited in place where possible, otherwise written anew with a warning."""
    if not text.strip("\ufeff \t\r\n"):
        return _check_text(source.render_new(wanted), wanted), ()
    try:
        return _check_text(source.rewrite(text, edits), wanted), ()
    except (source.CannotEdit, ConfigError):
        return _check_text(source.render_new(wanted), wanted), (ConfigProblem("", LOST_COMMENTS),)


def _check_text(text: str, wanted: Any) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidRequest("the value is not valid Unicode text") from None
    if not tree.same(parse(text, "the new configuration"), wanted):
        raise source.CannotEdit
    return text


def _refuse_included(raw: Any, before: ConfigAnalysis, after: ConfigAnalysis, edits: list[tree.TreeEdit]) -> None:
    """Refuses an edit of a value that comes from an included file: it has to be changed there."""
    wanted: Any = before.raw
    for edit in edits:
        if load.KEY in edit.path:
            return
        if tree.has(before.raw, edit.path) and not tree.has(raw, edit.path):
            raise _included(edit.path, before.files)
        try:
            wanted = tree.put(wanted, edit.path, edit.value) if edit.kind == "put" else tree.drop(wanted, edit.path)
        except (InvalidRequest, NotFound):
            raise _included(edit.path, before.files) from None
    if not tree.same(after.raw, wanted):
        raise _included(edits[0].path, before.files)


def _included(path: tree.Path, included: tuple[Path, ...]) -> InvalidRequest:
    names = ", ".join(str(file) for file in included)
    return InvalidRequest(f"{tree.format_path(path)} comes from an included file: change it there ({names})")
