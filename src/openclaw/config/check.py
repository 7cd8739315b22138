"""Checks the data of a file against the types; reports every problem, not only the first. Also explains one setting."""

import math
import pathlib
import re
import zlib
from collections.abc import Callable, Collection, Iterable
from functools import cache
from typing import Any

import msgspec
from msgspec import Struct, inspect

from openclaw.config import schema
from openclaw.config.field_docs import field_docs
from openclaw.config.tree import Path, format_path, kind_of, parse_path
from openclaw.core.deferred import difflib
from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.core.keys import normalise_agent
from openclaw.core.secret import REDACTED, Secret
from openclaw.core.text import compile_lazily

Names = dict[str, "Names"]

KNOWN_KEYS = pathlib.Path(__file__).parent / "known-keys.txt.gz"
ANY = "<id>"
OPEN = "**"


# Settings of upstream OpenClaw, to tell an unsupported setting from a misspelt one.


@cache
def upstream_names() -> Names:
    """The tree of upstream's names; `<id>` stands for any name a person may choose, `**` for anything at all."""
    packed = KNOWN_KEYS.read_bytes()
    top: Names = {}
    chain = [top]
    for line in zlib.decompress(packed, wbits=31).decode().splitlines():
        name = line.lstrip(" ")
        depth = len(line) - len(name)
        inner: Names = {}
        chain[depth][name] = inner
        chain[depth + 1 :] = [inner]
    return top


def upstream_siblings(path: Path) -> Names:
    """The names beside `path` in upstream OpenClaw; empty where it has no such section."""
    here = upstream_names()
    for part in _theirs(path)[:-1]:
        if OPEN in here:
            return here
        here = here.get(part) or here.get(ANY) or {}
    return here


def is_upstream_setting(path: Path) -> bool:
    """Whether `path` is a setting of upstream OpenClaw."""
    return not {_theirs(path)[-1], ANY, OPEN}.isdisjoint(upstream_siblings(path))


def _theirs(path: Path) -> tuple[str, ...]:
    """`path` in upstream's spelling: lists have no index of their own, and agents are a map."""
    if path[:2] == ("agents", "list"):
        path = ("agents", "entries", ANY, *path[3:])
    return tuple(part for part in path if isinstance(part, str))


SHORT = compile_lazily(r"[\w.:/ -]{0,12}\Z|[A-Za-z_.:/ -]{0,24}\Z")
"""Text that may be quoted in a message; anything else might be a pasted credential."""
ALIAS = compile_lazily(r"[a-z][a-z0-9_-]{0,63}\Z")
VARIABLE = compile_lazily(r"[A-Z][A-Z0-9_]{0,127}\Z")
EXEC_ID = compile_lazily(r"[A-Za-z0-9][A-Za-z0-9._:/#-]{0,255}\Z")


# The check.


class ConfigProblem(Struct, frozen=True):
    """One problem: where, and what to do about it."""

    path: str
    message: str
    expected: str = ""
    found: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


def check(data: Any, hidden: Collection[Path] = (), before: Callable[[Path], Path] | None = None) -> "CheckResult":
    """Checks `data` against the types.

    Values at `hidden` paths are never quoted; `before` gives the path of a part of `data` in the file.
    """
    result = CheckResult(hidden=hidden, before=before)
    result.value(data, schema.partial_root(data if isinstance(data, dict) else ()), ())
    if not result.errors:
        for path, message in check_rules(data):
            result.error(path, message)
    return result


class CheckResult(Struct, kw_only=True):
    """What a check has found; its methods walk the data."""

    hidden: Collection[Path]
    before: Callable[[Path], Path] | None
    errors: list[ConfigProblem] = []
    warnings: list[ConfigProblem] = []
    secrets: list[Path] = []
    """Where credentials are."""
    whole: list[Path] = []
    """Where a whole number was written with a point (5.0)."""

    def value(self, value: Any, kind: inspect.Type, path: Path) -> None:
        choices = schema.options(kind)
        fitting = [choice for choice in choices if _fits(value, choice)]
        match fitting:
            case []:
                self.wrong(path, name_of(kind), value)
            case [inspect.StructType(tag_field=str()), *_]:
                self.tagged(value, [choice for choice in fitting if isinstance(choice, inspect.StructType)], path)
            case [inspect.StructType() as found, *_]:
                self.struct(value, found, path)
            case [inspect.DictType() as found, *_]:
                for key, item in value.items():
                    if not _matches(key, found.key_type):
                        self.error((*path, key), f"{key!r} cannot be a name here: use {name_of(found.key_type)}")
                    self.value(item, schema.value_type(found, key), (*path, key))
            case [inspect.VarTupleType() | inspect.ListType() as found, *_]:
                for index, item in enumerate(value):
                    self.value(item, found.item_type, (*path, index))
            case [inspect.CustomType(cls=cls), *_] if cls is Secret:
                self.secret(value, path)
            case [inspect.IntType() as found, *_]:
                if isinstance(value, float):
                    self.whole.append(path)
                self.limits(value, found, path)
            case [inspect.FloatType() as found, *_]:
                self.limits(value, found, path)
            case [inspect.StrType() as found, *_]:
                if not _matches(value, found):
                    self.wrong(path, name_of(found), value)

    def struct(self, value: dict[str, Any], kind: inspect.StructType, path: Path) -> None:
        fields = {known_field.encode_name: known_field for known_field in kind.fields}
        for key, item in value.items():
            if key in fields:
                self.value(item, fields[key].type, (*path, key))
            elif key != kind.tag_field:
                self.warnings.append(_unknown((*path, key), fields, self.where((*path, key))))
        for name, missing in fields.items():
            if missing.required and name not in value:
                self.error(
                    (*path, name), f"is missing: set it to {name_of(missing.type)}", name_of(missing.type), "nothing"
                )

    def tagged(self, value: dict[str, Any], kinds: list[inspect.StructType], path: Path) -> None:
        mark = str(kinds[0].tag_field)
        for kind in kinds:
            if value.get(mark) == kind.tag:
                self.struct(value, kind, path)
                return
        self.wrong((*path, mark), _one_of([kind.tag for kind in kinds]), value.get(mark))

    def secret(self, value: Any, path: Path) -> None:
        self.secrets.append(path)
        if isinstance(value, str):
            if REDACTED in value:
                self.error(path, "holds a placeholder instead of the credential: set it again")
            return
        why = ref_problem(value)
        if why:
            self.error(path, why, "text, ${NAME} or a secret reference", "an object")

    def limits(self, value: float, kind: inspect.IntType | inspect.FloatType, path: Path) -> None:
        if (
            not math.isfinite(value)
            or (kind.ge is not None and value < kind.ge)
            or (kind.gt is not None and value <= kind.gt)
            or (kind.le is not None and value > kind.le)
            or (kind.lt is not None and value >= kind.lt)
        ):
            self.wrong(path, name_of(kind), value)

    def wrong(self, path: Path, expected: str, value: Any) -> None:
        found = self.quote(value, path)
        self.error(path, f"expected {expected}, found {found}", expected, found)

    def error(self, path: Path, message: str, expected: str = "", found: str = "") -> None:
        self.errors.append(ConfigProblem(self.where(path), message, expected=expected, found=found))

    def where(self, path: Path) -> str:
        """`path` as it is in the file."""
        return format_path(self.before(path) if self.before else path)

    def quote(self, value: Any, path: Path) -> str:
        match value:
            case bool():
                return "true" if value else "false"
            case int() | float():
                return f"the number {value}"
            case str() if not value:
                return "empty text"
            case str():
                return f'"{value}"' if path not in self.hidden and SHORT.match(value) else "other text"
            case None:
                return "null (remove the key to use its default)"
            case _:
                return kind_of(value)


def ref_problem(value: Any) -> str:
    """What is wrong with a secret reference; empty when it can be resolved."""
    if not isinstance(value, dict):
        return f"expected text, ${{NAME}} or a secret reference, found {kind_of(value)}"
    extra = sorted(set(value) - {"source", "id", "provider"})
    if extra:
        return f"a secret reference has source, provider and id, not {extra[0]}"
    source, name, provider = value.get("source"), value.get("id"), value.get("provider", "default")
    if source not in ("env", "file", "exec", "store"):
        return "a secret reference needs a source: env, file, exec or store"
    if not isinstance(provider, str) or not ALIAS.match(provider):
        return "the provider of a secret reference is a short name in lower case, for example default"
    if not isinstance(name, str):
        return "a secret reference needs an id"
    if source in ("env", "store") and not VARIABLE.match(name):
        return f"the id of a secret from {source} is a name like OPENAI_API_KEY"
    if source == "file" and name != "value" and not name.startswith("/"):
        return 'the id of a secret from a file is a JSON pointer like /openai/key, or "value" for the whole file'
    if source == "exec" and (not EXEC_ID.match(name) or {".", ".."} & set(name.split("/"))):
        return "the id of a secret from a program is made of letters, digits and . _ : / # -"
    return ""


def check_rules(data: dict[str, Any]) -> Iterable[tuple[Path, str]]:
    """Rules that span several settings; `data` fits the types."""
    tools = data.get("tools", {})
    if tools.get("allow") and tools.get("alsoAllow"):
        yield (
            ("tools", "alsoAllow"),
            "cannot stand beside tools.allow: list every tool in allow, or use a profile with alsoAllow",
        )
    for name, channel in data.get("channels", {}).items():
        if channel.get("dmPolicy") == "open" and "*" not in channel.get("allowFrom", ()):
            yield ("channels", name, "dmPolicy"), 'open hears everybody: say so with "*" in allowFrom, or use pairing'
    seen: set[str] = set()
    for index, agent in enumerate(data.get("agents", {}).get("list", ())):
        own = agent.get("tools", {}).get("exec", {})
        if "mode" in own and {"security", "ask"} & set(own):
            yield (
                ("agents", "list", index, "tools", "exec", "mode"),
                "cannot stand beside security or ask: it means both",
            )
        where = ("agents", "list", index, "id")
        try:
            name = normalise_agent(agent["id"])
        except InvalidRequest as error:
            yield where, error.message
            continue
        if name in seen:
            yield where, f"the agent {name} is there twice: give one of them another id"
        seen.add(name)


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The known name closest to `name`."""
    folded = {other.lower(): other for other in names}
    close = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.7)
    return folded[close[0]] if close else None


def _unknown(path: Path, fields: Iterable[str], where: str) -> ConfigProblem:
    key = str(path[-1])
    close = nearest(key, fields)
    if close is None and is_upstream_setting(path):
        return ConfigProblem(where, "is known to OpenClaw but not supported here yet; it is ignored")
    if close is None:
        theirs = nearest(key, upstream_siblings(path))
        hint = f"; OpenClaw has {theirs}, which is not supported here yet" if theirs else ""
        return ConfigProblem(where, f"is not a setting; it is ignored{hint}")
    if is_upstream_setting(path):
        return ConfigProblem(where, f"is not supported here yet; it is ignored (there is {close})")
    return ConfigProblem(where, f"is not a setting; it is ignored. Did you mean {close}?")


def _fits(value: Any, kind: inspect.Type) -> bool:
    """Whether `value` has the JSON type of `kind`; limits are checked later, for a message of their own."""
    match kind:
        case inspect.IntType():
            whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
            return whole and not isinstance(value, bool)
        case inspect.FloatType():
            return isinstance(value, int | float) and not isinstance(value, bool)
        case inspect.LiteralType():
            return isinstance(value, str) and value in kind.values
    return isinstance(value, _PLAIN.get(type(kind), dict))


_PLAIN: dict[type[inspect.Type], type | tuple[type, ...]] = {
    inspect.AnyType: object,
    inspect.NoneType: type(None),
    inspect.BoolType: bool,
    inspect.StrType: str,
    inspect.VarTupleType: list,
    inspect.ListType: list,
    inspect.CustomType: (str, dict),
}


def _matches(value: Any, kind: inspect.Type) -> bool:
    if not isinstance(kind, inspect.StrType):
        return True
    return (
        len(value) >= (kind.min_length or 0)
        and (kind.max_length is None or len(value) <= kind.max_length)
        and (kind.pattern is None or re.search(kind.pattern, value) is not None)
    )


def name_of(kind: inspect.Type) -> str:
    """The name of `kind` in a message."""
    kind = schema.strip_metadata(kind)
    match kind:
        case inspect.IntType() as number:
            return "a whole number" + _range(number)
        case inspect.FloatType() as number:
            return "a number" + _range(number)
        case inspect.StrType(pattern=str() as pattern):
            return f"text like {pattern}"
        case inspect.StrType(max_length=int() as most):
            return f"text of 1 to {most} characters"
        case inspect.StrType(min_length=int()):
            return "text that is not empty"
        case inspect.LiteralType(values=values):
            return _one_of(values)
        case inspect.UnionType():
            members = (each for each in schema.options(kind) if not isinstance(each, inspect.NoneType))
            return " or ".join(dict.fromkeys(map(name_of, members)))
    return _NAMES.get(type(kind), "an object")


_NAMES: dict[type[inspect.Type], str] = {
    inspect.NoneType: "null",
    inspect.BoolType: "true or false",
    inspect.StrType: "text",
    inspect.VarTupleType: "a list",
    inspect.ListType: "a list",
    inspect.CustomType: "text, ${NAME} or a secret reference",
    inspect.AnyType: "a value",
}


def _range(kind: inspect.IntType | inspect.FloatType) -> str:
    limits = (("from", kind.ge), ("above", kind.gt), ("up to", kind.le), ("below", kind.lt))
    return "".join(f" {word} {limit}" for word, limit in limits if limit is not None)


def _one_of(values: Iterable[Any]) -> str:
    return "one of " + ", ".join(str(value) for value in values)


# Lookup of one setting.


class ChildSetting(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A setting below the one that was looked up."""

    key: str
    type: str
    doc: str = ""
    sensitive: bool = False


class Setting(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the schema says about one setting."""

    path: str
    type: str
    doc: str = ""
    required: bool = False
    default: Any = None
    constraints: dict[str, Any] = {}
    sensitive: bool = False
    children: tuple[ChildSetting, ...] = ()

    def to_schema(self) -> dict[str, Any]:
        """As JSON Schema, without its children."""
        described = {"type": self.type, "description": self.doc, "default": self.default, **self.constraints}
        return {name: value for name, value in described.items() if value is not None}


def lookup(text: str) -> Setting:
    """Looks up the setting `text` names; in a map, `<id>` or any name stands for all entries."""
    if text in ("", "."):
        return _describe("", schema.root(), "everything that can be set", None)
    path = parse_path(text)
    kind: inspect.Type = schema.root()
    found: inspect.Field | None = None
    doc = ""
    for depth, part in enumerate(path):
        field, doc = _field(kind, part)
        inner = field.type if field else schema.child_type(kind, part)
        if inner is None:
            raise NotFound(_missing(path[: depth + 1], kind))
        kind, found = inner, field
    return _describe(format_path(path), kind, doc, found)


def _field(kind: inspect.Type, part: str | int) -> tuple[inspect.Field | None, str]:
    """The field called `part`, and what it is for."""
    for option in schema.options(kind):
        if isinstance(option, inspect.StructType):
            for field in option.fields:
                if field.encode_name == part:
                    return field, field_docs(option.cls).get(part, "")
    return None, ""


def _missing(path: Path, kind: inspect.Type) -> str:
    names = [child.key for child in _children(kind)]
    where = format_path(path)
    if is_upstream_setting(path):
        return f"{where} is known to OpenClaw but not supported here yet"
    close = nearest(str(path[-1]), names)
    if close:
        return f"there is no setting {where}: did you mean {format_path((*path[:-1], close))}?"
    return f"there is no setting {where}; beside it there are {', '.join(names) or 'none'}"


def _describe(path: str, kind: inspect.Type, doc: str, field: inspect.Field | None) -> Setting:
    return Setting(
        path=path,
        type=name_of(kind),
        doc=doc or _class_doc(kind),
        required=field.required if field else False,
        default=None if field is None or field.default is msgspec.NODEFAULT else msgspec.to_builtins(field.default),
        constraints=_constraints(kind),
        sensitive=schema.is_secret(kind),
        children=_children(kind),
    )


def _children(kind: inspect.Type) -> tuple[ChildSetting, ...]:
    children: list[ChildSetting] = []
    for option in schema.options(kind):
        match option:
            case inspect.StructType():
                docs = field_docs(option.cls)
                children += [_child(each.encode_name, each.type, docs) for each in option.fields]
            case inspect.DictType():
                children.append(_child(ANY, option.value_type, {}))
            case inspect.VarTupleType() | inspect.ListType():
                children.append(_child("[]", option.item_type, {}))
    return tuple({child.key: child for child in children}.values())


def _child(key: str, kind: inspect.Type, docs: dict[str, str]) -> ChildSetting:
    return ChildSetting(
        key=key,
        type=name_of(kind),
        doc=docs.get(key) or _class_doc(kind),
        sensitive=schema.is_secret(kind),
    )


def _class_doc(kind: inspect.Type) -> str:
    for option in schema.options(kind):
        if isinstance(option, inspect.StructType) and option.cls.__doc__:
            return option.cls.__doc__.partition("\n")[0].rstrip(".")
    return ""


def _constraints(kind: inspect.Type) -> dict[str, Any]:
    limits: dict[str, Any] = {}
    for option in schema.options(kind):
        match option:
            case inspect.LiteralType():
                limits["enum"] = list(option.values)
            case inspect.IntType() | inspect.FloatType():
                given = {
                    "minimum": option.ge,
                    "exclusiveMinimum": option.gt,
                    "maximum": option.le,
                    "exclusiveMaximum": option.lt,
                }
                limits |= {name: limit for name, limit in given.items() if limit is not None}
            case inspect.StrType():
                given_text = {"minLength": option.min_length, "maxLength": option.max_length, "pattern": option.pattern}
                limits |= {name: limit for name, limit in given_text.items() if limit is not None}
    return limits
