"""Loads the file into a frozen `Config`, or reports everything wrong with it; falls back to the last good one."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from openclaw.channels.settings import convert_channels
from openclaw.config import env, tree
from openclaw.config.check import CheckResult, ConfigProblem, check
from openclaw.config.files import digest, read_regular, replace
from openclaw.config.migrate import migrate
from openclaw.config.schema import BUILT_IN_CHANNELS, Config
from openclaw.config.settings import SecretsSettings
from openclaw.config.source import decode, parse, render_new, repeated_keys
from openclaw.core.errors import ConfigError
from openclaw.core.secret import REDACTED, Secret
from openclaw.core.settings import SecretRef
from openclaw.process.environment import Home
from openclaw.security.profiles import apply_profile

KEY = "$include"
MAX_DEPTH = 10
MAX_INCLUDE_BYTES = 2 << 20
MAX_PATH = 4096
MAX_FILES = 200


# Includes.


class Resolved(Struct, frozen=True):
    """The data with every include resolved, and the files it came from."""

    data: dict[str, Any]
    files: tuple[Path, ...] = ()


def resolve_includes(data: dict[str, Any], config: Path, environ: Mapping[str, str]) -> Resolved:
    """Reads and merges the includes in `data`, which came from the file `config`.

    They are in the same directory, or in one of `OPENCLAW_INCLUDE_ROOTS`.
    """
    if not _used(data):
        return Resolved(data)
    more = environ.get("OPENCLAW_INCLUDE_ROOTS", "").split(os.pathsep)
    reader = _Reader((config.parent.resolve(), *(Path(root).resolve() for root in more if root)))
    merged = reader.merge(data, config.resolve(), (config.resolve(),), ())
    if not isinstance(merged, dict):
        raise ConfigError(f"{config}: {KEY} at the root must give an object", path=KEY, file=str(config))
    return Resolved(merged, tuple(dict.fromkeys(reader.files)))


def _used(data: Any) -> bool:
    if isinstance(data, dict):
        return KEY in data or any(_used(value) for value in data.values())
    return isinstance(data, list) and any(_used(item) for item in data)


class _Reader:
    """The state of one resolution; limits how much a hostile set of files can read."""

    def __init__(self, allowed: tuple[Path, ...]) -> None:
        self.allowed = allowed
        self.files: list[Path] = []

    def merge(self, data: Any, file: Path, chain: tuple[Path, ...], path: tree.Path) -> Any:
        if isinstance(data, list):
            return [self.merge(item, file, chain, (*path, index)) for index, item in enumerate(data)]
        if not isinstance(data, dict):
            return data
        own = {key: self.merge(value, file, chain, (*path, key)) for key, value in data.items() if key != KEY}
        if KEY not in data:
            return own
        named = data[KEY]
        names = named if isinstance(named, list) else [named]
        if not names or not all(isinstance(name, str) for name in names):
            raise _error(path, file, "expected a file name or a list of file names")
        merged: dict[str, Any] = {}
        for name in names:
            merged = overlay(merged, self.read(name, file, chain, path))
        return overlay(merged, own)

    def read(self, name: str, file: Path, chain: tuple[Path, ...], path: tree.Path) -> dict[str, Any]:
        target = self.locate(name, file, path)
        if target in chain:
            raise _error(path, file, f"{name} includes itself: {' -> '.join(link.name for link in (*chain, target))}")
        if len(chain) > MAX_DEPTH:
            raise _error(path, file, f"{name} is included more than {MAX_DEPTH} levels deep")
        if len(self.files) >= MAX_FILES:
            raise _error(path, file, f"more than {MAX_FILES} files are included")
        self.files.append(target)
        found = read_regular(target, MAX_INCLUDE_BYTES)
        if found is None:
            raise _error(path, file, f"there is no file {name}")
        inner = parse(decode(found, str(target)), str(target))
        merged = self.merge(inner, target, (*chain, target), path)
        assert isinstance(merged, dict)
        return merged

    def locate(self, name: str, file: Path, path: tree.Path) -> Path:
        if not name or "\0" in name or len(name) >= MAX_PATH:
            raise _error(path, file, "the name of an included file must be 1 to 4095 characters without NUL")
        try:
            target = (file.parent / name).resolve()
        except (OSError, RuntimeError):
            raise _error(path, file, f"{name} cannot be followed: it is a circle of symbolic links") from None
        if not any(target.is_relative_to(root) for root in self.allowed):
            raise _error(
                path,
                file,
                f"{name} is outside the configuration directory: move it there, or add its directory to"
                " OPENCLAW_INCLUDE_ROOTS",
            )
        return target


def overlay(below: Any, above: Any) -> Any:
    """Merges objects; anything else is replaced by `above`."""
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    merged = dict(below)
    for key, value in above.items():
        merged[key] = overlay(merged[key], value) if key in merged else value
    return merged


def _error(path: tree.Path, file: Path, message: str) -> ConfigError:
    where = tree.format_path((*path, KEY))
    return ConfigError(f"{where} in {file}: {message}", path=where, file=str(file))


MAX_BYTES = 10 << 20
DOTENV_BYTES = 1 << 20
HAND_WRITTEN = 1 << 18
"""Up to this size a file is searched for keys that stand twice."""

_SHORTHAND = re.compile(r"\$([A-Z][A-Z0-9_]{0,127})\Z")


# Loading.


class ConfigSource(Struct, frozen=True, kw_only=True):
    """The configuration file as it is on disk."""

    path: Path
    text: str = ""
    hash: str = ""
    """Of its bytes; empty when there is no file."""

    @property
    def exists(self) -> bool:
        return bool(self.hash)

    def __repr__(self) -> str:
        return f"Source({self.path}, {self.hash[:12]})"


class ConfigAnalysis(Struct, frozen=True, kw_only=True):
    """What a text means: the data as written, the data as used, and every problem with it."""

    raw: dict[str, Any]
    """As written, with includes in place: `${NAME}` is still text."""
    data: dict[str, Any]
    findings: CheckResult
    errors: tuple[ConfigProblem, ...]
    warnings: tuple[ConfigProblem, ...]
    files: tuple[Path, ...]
    variables: Mapping[str, str]
    filled: frozenset[tree.Path]

    def __repr__(self) -> str:
        return f"Survey({len(self.errors)} errors, {len(self.warnings)} warnings)"


class LoadedConfig(Struct, frozen=True, kw_only=True):
    """The configuration in use, and how it was loaded."""

    config: Config
    raw: dict[str, Any]
    hash: str
    path: Path
    exists: bool
    text: str
    variables: Mapping[str, str]
    """The environment over `.env`, `env.vars` and the login shell."""
    files: tuple[Path, ...] = ()
    """Included files."""
    warnings: tuple[ConfigProblem, ...] = ()
    issues: tuple[ConfigProblem, ...] = ()
    """Why the file itself cannot be used, when the last good one is used instead."""
    used_last_good: bool = False

    def __repr__(self) -> str:
        state = "last good" if self.used_last_good else "current"
        return f"Loaded({self.path}, {state}, {len(self.warnings)} warnings, {len(self.issues)} issues)"


class InvalidConfig(ConfigError):
    """The text can be parsed, but not used; carries every problem."""

    def __init__(self, problems: tuple[ConfigProblem, ...], file: Path, what: str = "") -> None:
        lines = "\n".join(f"  {problem}" for problem in problems)
        super().__init__(f"{what or f'{file} cannot be used'}:\n{lines}", path=problems[0].path, file=str(file))
        self.problems = problems


def load(home: Home, environ: Mapping[str, str]) -> LoadedConfig:
    """The configuration of `home`; the last good one when the file cannot be used.

    Raises `ConfigError` with every problem when there is no good one either.
    """
    source = ConfigSource(path=home.config)
    try:
        source = read(home.config)
        return _load(source, home, environ)
    except ConfigError as error:
        broken, issues = error, problems_of(error)
    try:
        last = read(home.last_good)
        if not last.exists:
            raise broken
        good = _load(last, home, environ)
    except ConfigError:
        raise broken from None
    return msgspec.structs.replace(
        good, path=home.config, hash=source.hash, exists=True, issues=issues, used_last_good=True
    )


def save_last_good(home: Home, loaded: LoadedConfig) -> bool:
    """Saves `loaded` as the last good configuration; call it once the program runs with it."""
    if not loaded.exists or loaded.used_last_good or REDACTED in loaded.text:
        return False
    # With includes the file alone would not be the configuration that worked.
    text = render_new(loaded.raw) if loaded.files else loaded.text
    if read_regular(home.last_good, MAX_BYTES) == text.encode():
        return False
    replace(home.last_good, text.encode())
    return True


def read(path: Path) -> ConfigSource:
    """The file as it is; a missing one is empty."""
    data = read_regular(path, MAX_BYTES)
    if data is None:
        return ConfigSource(path=path)
    return ConfigSource(path=path, text=decode(data, str(path)), hash=digest(data))


def analyse_text(text: str, home: Home, environ: Mapping[str, str], *, ask_shell: bool = False) -> ConfigAnalysis:
    """Everything about `text` that can be found without fetching a credential."""
    raw = parse(text, str(home.config))
    resolved = resolve_includes(raw, home.config, environ)
    moved = migrate(resolved.data)
    moved = structs.replace(moved, data=apply_profile(moved.data))
    dotenv, warnings = _dotenv(home)
    variables = env.merge_variables(environ, dotenv)
    variables = env.merge_variables(variables, env.own_vars(moved.data, variables))
    filled = env.substitute(moved.data, variables)
    patience = env.shell_wanted(moved.data, environ) if ask_shell and filled.missing else 0.0
    if patience:
        wanted = {name for _, name in filled.missing}
        variables = env.merge_variables(variables, env.from_login_shell(wanted, environ, patience))
        filled = env.substitute(moved.data, variables)
    data, ignored = env.apply_overrides(filled.data, environ)
    findings = check(data, filled.filled, moved.before)
    missing = [env.missing_problem(moved.before(path), name) for path, name in filled.missing]
    return ConfigAnalysis(
        raw=resolved.data,
        data=data,
        findings=findings,
        errors=(*moved.errors, *findings.errors),
        warnings=(*_repeated(text), *moved.warnings, *findings.warnings, *missing, *ignored, *warnings),
        files=resolved.files,
        variables=variables,
        filled=filled.filled,
    )


def problems_of(error: ConfigError) -> tuple[ConfigProblem, ...]:
    """The separate problems behind an error."""
    if isinstance(error, InvalidConfig):
        return error.problems
    return (ConfigProblem(error.path, error.message),)


def _load(source: ConfigSource, home: Home, environ: Mapping[str, str]) -> LoadedConfig:
    seen = analyse_text(source.text, home, environ, ask_shell=True)
    if seen.errors:
        raise InvalidConfig(seen.errors, source.path)
    config, unavailable = _build(seen, source.path)
    return LoadedConfig(
        config=config,
        raw=seen.raw,
        hash=source.hash,
        path=source.path,
        exists=source.exists,
        text=source.text,
        variables=seen.variables,
        files=seen.files,
        warnings=(*_link_warning(source.path), *seen.warnings, *unavailable),
    )


def _build(seen: ConfigAnalysis, file: Path) -> tuple[Config, tuple[ConfigProblem, ...]]:
    """The frozen value; a credential that cannot be fetched is left out with a warning."""
    data, refs = _handles(seen)
    problems: tuple[ConfigProblem, ...] = ()
    if refs:
        data, problems = _follow(data, refs, seen, file)
    try:
        channels = convert_channels(data.get("channels", {}), BUILT_IN_CHANNELS, _as_is)
        rest = {key: value for key, value in data.items() if key != "channels"}
        return structs.replace(msgspec.convert(rest, Config, dec_hook=_as_is), channels=channels), problems
    except msgspec.ValidationError as error:
        # The message may quote a value; the path it names cannot.
        where = str(error).rpartition(" - at ")[2].strip("`$.")
        unfit = ConfigProblem(where, "does not have the expected type")
        raise InvalidConfig((*problems, unfit), file) from None


def _handles(seen: ConfigAnalysis) -> tuple[Any, dict[tree.Path, SecretRef]]:
    """The data with its credentials as handles, and the references that have to be fetched."""
    data: Any = seen.data
    refs: dict[tree.Path, SecretRef] = {}
    for path in seen.findings.whole:
        data = tree.put(data, path, int(tree.find(data, path)))
    for path in seen.findings.secrets:
        value = tree.find(data, path)
        short = _SHORTHAND.match(value) if isinstance(value, str) and path not in seen.filled else None
        if short:
            refs[path] = SecretRef(source="env", id=short[1])
        elif isinstance(value, dict):
            refs[path] = msgspec.convert(value, SecretRef)
        else:
            data = tree.put(data, path, Secret(value.strip()))
    return data, refs


def _follow(
    data: Any, refs: Mapping[tree.Path, SecretRef], seen: ConfigAnalysis, file: Path
) -> tuple[Any, tuple[ConfigProblem, ...]]:
    """`data` with each reference replaced by its credential."""
    from openclaw.config.secrets import resolve

    circular = tuple(
        ConfigProblem(tree.format_path(path), "a secret provider cannot itself need a secret: write it as text")
        for path in refs
        if path[0] == "secrets"
    )
    if circular:
        raise InvalidConfig(circular, file)
    settings = msgspec.convert(data.get("secrets", {}), SecretsSettings, dec_hook=_as_is)
    found, problems = resolve(refs, settings, seen.variables)
    for path in refs:
        data = tree.put(data, path, found[path]) if path in found else tree.drop(data, path)
    return data, problems


def _repeated(text: str) -> list[ConfigProblem]:
    if not text.strip("\ufeff \t\r\n") or len(text) > HAND_WRITTEN:
        return []
    return [
        ConfigProblem(tree.format_path(path), "stands there twice; only the last one counts: remove one of them")
        for path in repeated_keys(text)
    ]


def _as_is(kind: type, value: Any) -> Any:
    """Passes credentials through: they are handles already when the types are applied."""
    if not isinstance(value, kind):
        raise TypeError
    return value


def _dotenv(home: Home) -> tuple[dict[str, str], list[ConfigProblem]]:
    path = home.state / ".env"
    try:
        data = read_regular(path, DOTENV_BYTES)
        text = decode(data, str(path)) if data is not None else ""
    except ConfigError as error:
        return {}, [ConfigProblem("", error.message)]
    found, bad = env.parse_dotenv(text)
    return found, [ConfigProblem("", f"{path}, line {line}: expected NAME=value; the line is ignored") for line in bad]


def _link_warning(path: Path) -> tuple[ConfigProblem, ...]:
    if not path.is_symlink():
        return ()
    return (
        ConfigProblem(
            "",
            f"{path} is a symbolic link: it is read, but never written; set OPENCLAW_CONFIG_PATH to the file"
            " it points to",
        ),
    )
