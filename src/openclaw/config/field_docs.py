"""The documentation of settings: the string that stands below a field in its source.

Read from the source when somebody asks, because a hundred settings types that carried it would make every start slower.
"""

import sys
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

from msgspec import Struct

from openclaw.core.deferred import ast


def field_docs(kind: type[Struct]) -> dict[str, str]:
    """What the settings of a type are for, by their names in the file."""
    docs = _docs_by_field(kind)
    fields = zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
    return {written: docs[name] for name, written in fields if name in docs}


def _docs_by_field(kind: type) -> dict[str, str]:
    docs: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        # A type derived from another (`memory/settings.py`) has no source of its own.
        docs |= _docs_by_field(each.__dict__["derived_from"]) if "derived_from" in each.__dict__ else {}
        docs |= _docs_of_module(each.__module__).get(each.__qualname__, {})
    return docs


@cache
def _docs_of_module(name: str) -> dict[str, dict[str, str]]:
    """By class and field, for the modules with settings; nothing for any other."""
    if not name.startswith("openclaw."):
        return {}
    source = sys.modules[name].__file__ or ""
    tree = ast.parse(Path(source).read_text(encoding="utf-8"))
    return {each.name: dict(_docs_in(each.body)) for each in tree.body if isinstance(each, ast.ClassDef)}


def _docs_in(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for above, below in pairwise(body):
        match above, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, " ".join(text.split())
