"""Renders the page that lists every setting.

Run: python -m openclaw.config.reference docs/configuration-reference.md
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from openclaw.config.schema import json_schema

HEAD = """# Configuration reference

Every setting, with its type, its default where it has a plain one, and what it does. How settings are changed:
[configuration](configuration.md). This page is made from the schema, not edited by hand:
`python -m openclaw.config.reference docs/configuration-reference.md`.
`<id>` stands for a name of yours, `[]` for each entry of a list.
"""


def render_reference() -> str:
    """The page, a section for each top-level key."""
    schema = json_schema()
    parts = schema["$defs"]
    lines = [HEAD]
    for name, section in parts["Config"]["properties"].items():
        lines += [f"## {name}", "", section.get("description", ""), ""]
        lines += _lines(section, name, parts, ())
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _lines(entry: dict[str, Any], path: str, parts: dict[str, Any], above: tuple[str, ...]) -> Iterator[str]:
    """The lines of what stands below `path`; a type that holds itself is followed once."""
    for option in entry.get("anyOf", (entry,)):
        name = option.get("$ref", "").rpartition("/")[2]
        if name in above or name == "SecretRef":
            continue
        known = parts.get(name, option)
        for key, child in known.get("properties", {}).items():
            yield _line(f"{path}.{key}", child)
            yield from _lines(child, f"{path}.{key}", parts, (*above, name))
        for form, inner in (("<id>", known.get("additionalProperties")), ("[]", known.get("items"))):
            if isinstance(inner, dict):
                below = f"{path}[]" if form == "[]" else f"{path}.{form}"
                yield from _lines(inner, below, parts, (*above, name))


def _line(path: str, entry: dict[str, Any]) -> str:
    default = entry.get("default")
    plain = default if isinstance(default, str | int | float) and default != "" else None
    told = f", default `{json.dumps(plain, ensure_ascii=False)}`" if plain is not None else ""
    return f"- `{path}` ({_kind(entry)}{told}): {entry.get('description', '')}"


def _kind(entry: dict[str, Any]) -> str:
    if "enum" in entry:
        return "|".join(str(value) for value in entry["enum"] if value is not None)
    kinds = [_kind(each) for each in entry.get("anyOf", ())] or [str(entry.get("type", "object"))]
    return " or ".join(dict.fromkeys(kind for kind in kinds if kind not in ("null", "any"))) or "any"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render_reference(), encoding="utf-8")
