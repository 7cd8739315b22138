"""One setting at a time: what it is for, what it may be, what it is when nobody sets it."""

from typing import Any

import msgspec
from msgspec import Struct, inspect

from openclaw.config import check, known, schema
from openclaw.config.keypath import Path, parse, show
from openclaw.core.errors import NotFound

ANY = "<id>"


class ChildSetting(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A setting below the one that was looked up."""

    key: str
    type: str
    doc: str = ""
    sensitive: bool = False


class Setting(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything there is to know about one setting."""

    path: str
    type: str
    doc: str = ""
    required: bool = False
    default: Any = None
    constraints: dict[str, Any] = {}
    sensitive: bool = False
    children: tuple[ChildSetting, ...] = ()


def lookup(text: str) -> Setting:
    """The setting that `text` names; in a map, `<id>` or any name stands for all of them."""
    if text in ("", "."):
        return _describe("", schema.root(), "everything that can be set", None)
    path = parse(text)
    kind: inspect.Type = schema.root()
    found: inspect.Field | None = None
    for depth, part in enumerate(path):
        field = _field(kind, part)
        inner = field.type if field else schema.step(kind, part)
        if inner is None:
            raise NotFound(_missing(path[: depth + 1], kind))
        kind, found = inner, field
    return _describe(show(path), kind, schema.doc_of(kind), found)


def _field(kind: inspect.Type, part: str | int) -> inspect.Field | None:
    for option in schema.options(kind):
        if isinstance(option, inspect.StructType):
            for field in option.fields:
                if field.encode_name == part:
                    return field
    return None


def _missing(path: Path, kind: inspect.Type) -> str:
    names = [child.key for child in _children(kind)]
    where = show(path)
    if known.knows(path):
        return f"{where} is known to OpenClaw but not supported here yet"
    close = check.nearest(str(path[-1]), names)
    if close:
        return f"there is no setting {where}: did you mean {show((*path[:-1], close))}?"
    return f"there is no setting {where}; beside it there are {', '.join(names) or 'none'}"


def _describe(path: str, kind: inspect.Type, doc: str, field: inspect.Field | None) -> Setting:
    return Setting(
        path=path,
        type=check.name_of(kind),
        doc=doc or _class_doc(kind),
        required=field.required if field else False,
        default=_default(field),
        constraints=_constraints(kind),
        sensitive=schema.is_secret(kind),
        children=_children(kind),
    )


def _default(field: inspect.Field | None) -> Any:
    if field is None or field.default is msgspec.NODEFAULT:
        return None
    return msgspec.to_builtins(field.default)


def _children(kind: inspect.Type) -> tuple[ChildSetting, ...]:
    children: list[ChildSetting] = []
    for option in schema.options(kind):
        match option:
            case inspect.StructType():
                children += [_child(field.encode_name, field.type) for field in option.fields]
            case inspect.DictType():
                children.append(_child(ANY, option.value_type))
            case inspect.VarTupleType() | inspect.ListType():
                children.append(_child("[]", option.item_type))
    return tuple({child.key: child for child in children}.values())


def _child(key: str, kind: inspect.Type) -> ChildSetting:
    return ChildSetting(
        key=key,
        type=check.name_of(kind),
        doc=schema.doc_of(kind) or _class_doc(kind),
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
