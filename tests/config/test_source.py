"""Edits of the text: what is not meant stays as it is."""

import json
import re

import pyjson5
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw.config import source, tree
from openclaw.config.tree import Path, TreeEdit

FILE = """\
// The house of claw.
{
  // who answers
  agents: {
    defaults: {
      model: "a/b", // cheap and quick
      /* minutes, not hours */ timeoutSeconds: 600,
    },
    list: [
      { id: "main" }, // me
      { id: "work", /* them */ default: true },
    ],
  },
  "logging": { "level": "info" } // quiet
  // nothing below
}
// the end
"""


def put(text: str, path: Path, value: object) -> str:
    return source.rewrite(text, [TreeEdit("put", path, value)])


def drop(text: str, path: Path) -> str:
    return source.rewrite(text, [TreeEdit("drop", path)])


@pytest.mark.parametrize(
    ("text", "path", "value", "wanted"),
    [
        ("{a: 1}", ("a",), 2, "{a: 2}"),
        ("{a: 1, // one\n}", ("a",), "x", '{a: "x", // one\n}'),
        ("{a: 1}", ("b",), 2, "{a: 1, b: 2}"),
        ("{a: 1,}", ("b",), 2, "{a: 1, b: 2,}"),
        ('{"a": 1}', ("b",), 2, '{"a": 1, "b": 2}'),
        ("{a: 1}", ("b-c",), 2, '{a: 1, "b-c": 2}'),
        ("{\n  a: 1\n}", ("b",), 2, "{\n  a: 1,\n  b: 2\n}"),
        ("{\n  a: 1 // one\n}", ("b",), 2, "{\n  a: 1, // one\n  b: 2\n}"),
        ("{\n  a: 1, // one\n}", ("b",), 2, "{\n  a: 1, // one\n  b: 2,\n}"),
        ("{\n  a: 1 /* one */ // uno\n  // after\n}", ("b",), 2, "{\n  a: 1, /* one */ // uno\n  b: 2\n  // after\n}"),
        ("{ a: 1 // one\n}", ("b",), 2, "{ a: 1, // one\n  b: 2\n}"),
        ("{}", ("a",), 1, '{\n  "a": 1\n}'),
        ("{\n  // empty\n}\n", ("a",), 1, '{\n  // empty\n  "a": 1\n}\n'),
        ("{ // empty\n}", ("a",), 1, '{ // empty\n  "a": 1\n}'),
        ("{a: []}", ("a", 0), 1, "{a: [1]}"),
        ("{a: [1]}", ("a", 1), 2, "{a: [1, 2]}"),
        ("{\r\n\ta: 1\r\n}\r\n", ("b",), {"c": 1}, '{\r\n\ta: 1,\r\n\tb: {\r\n\t\t"c": 1\r\n\t}\r\n}\r\n'),
        ("{'a': {b: 1}}", ("a", "b"), None, "{'a': {b: null}}"),
        ("{a: 1, a: 2}", ("a",), 3, "{a: 1, a: 3}"),
        ("{'a\\'b': 1}", ("a'b",), 2, "{'a\\'b': 2}"),
        ("{\\u0061: 1}", ("a",), 2, "{\\u0061: 2}"),
        ("\ufeff{a: -Infinity}", ("a",), 0, "\ufeff{a: 0}"),
        ("{a: 'x // y', b: 1}", ("b",), 2, "{a: 'x // y', b: 2}"),
        ("// a\n// b\n{}", ("a",), 1, '// a\n// b\n{\n  "a": 1\n}'),
    ],
)
def test_a_value_is_written_where_it_belongs(text, path, value, wanted):
    assert put(text, path, value) == wanted
    assert tree.find(pyjson5.decode(wanted), path) == value


@pytest.mark.parametrize(
    ("text", "path", "wanted"),
    [
        ("{a: 1}", ("a",), "{}"),
        ("{a: 1, b: 2, c: 3}", ("b",), "{a: 1, c: 3}"),
        ("{a: 1, b: 2}", ("b",), "{a: 1}"),
        ("{a: 1, b: 2}", ("a",), "{b: 2}"),
        ("{\n  a: 1,\n  b: 2\n}", ("b",), "{\n  a: 1\n}"),
        ("{\n  a: 1,\n  b: 2,\n}", ("a",), "{\n  b: 2,\n}"),
        ("{\n  // on a\n  a: 1, // one\n  b: 2\n}", ("a",), "{\n  // on a\n  // one\n  b: 2\n}"),
        ("{\n  a: 1, // one\n  b: 2 // two\n}", ("b",), "{\n  a: 1 // one\n  // two\n}"),
        ("{a: 1 /* x */, b: 2}", ("a",), "{/* x */ b: 2}"),
        ("{a: [1, 2, 3]}", ("a", 1), "{a: [1, 3]}"),
        ("{a: 1, b: 2, a: 3}", ("a",), "{b: 2}"),
    ],
)
def test_a_value_is_taken_away_and_comments_stay(text, path, wanted):
    assert drop(text, path) == wanted
    assert not tree.has(pyjson5.decode(wanted), path) or isinstance(path[-1], int)


def test_every_comment_survives_a_series_of_edits():
    text = source.rewrite(
        FILE,
        [
            TreeEdit("put", ("agents", "defaults", "model"), "c/d"),
            TreeEdit("put", ("agents", "defaults", "workspace"), "~/w"),
            TreeEdit("put", ("agents", "list", 2), {"id": "third"}),
            TreeEdit("put", ("tools",), {"deny": ["exec"]}),
            TreeEdit("drop", ("agents", "defaults", "timeoutSeconds")),
            TreeEdit("drop", ("agents", "list", 0)),
            TreeEdit("drop", ("logging",)),
        ],
    )
    for comment in re.findall(r"//.*|/\*.*?\*/", FILE):
        assert comment in text
    assert pyjson5.decode(text) == {
        "agents": {
            "defaults": {"model": "c/d", "workspace": "~/w"},
            "list": [{"id": "work", "default": True}, {"id": "third"}],
        },
        "tools": {"deny": ["exec"]},
    }


def test_setting_a_value_changes_no_other_byte():
    before, after = FILE.split('"a/b"')
    assert put(FILE, ("agents", "defaults", "model"), "x") == before + '"x"' + after


# Random documents, with comments in all the places JSON5 allows them.

keys = st.text("ab.c'\"\\é/ *", min_size=1, max_size=4)
scalars = st.none() | st.booleans() | st.integers(-99, 99) | st.floats(-9, 9) | st.text("x\"'\\/*\n\u2028é", max_size=5)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=12
)
documents = st.dictionaries(keys, values, max_size=4)


@st.composite
def layouts(draw, value):
    """`value` as JSON5 text, laid out at random; each comment has its own number."""
    count = 0

    def gap() -> str:
        nonlocal count
        kind = draw(st.sampled_from(["", "", " ", "\n", "\n  ", "block", "line"]))
        if kind in ("block", "line"):
            count += 1
            return f"/* c{count}! */" if kind == "block" else f"// c{count}!\n"
        return str(kind)

    def text(item: object) -> str:
        if isinstance(item, str):
            return json.dumps(item, ensure_ascii=draw(st.booleans()))
        if isinstance(item, dict | list):
            pairs = (
                [f"{json.dumps(key)}{gap()}:{gap()}{text(inner)}" for key, inner in item.items()]
                if isinstance(item, dict)
                else [text(inner) for inner in item]
            )
            body = ",".join(gap() + pair + gap() for pair in pairs)
            end = "," + gap() if pairs and draw(st.booleans()) else gap()
            return "{" + body + end + "}" if isinstance(item, dict) else "[" + body + end + "]"
        return str(json.dumps(item))

    return f"{gap()}{text(value)}{gap()}"


def paths_of(value: object, path: Path = ()) -> list[Path]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(inner for key, item in items for inner in paths_of(item, (*path, key)))]


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_any_edit_of_any_layout_gives_the_data_asked_for_and_keeps_the_comments(data):
    old = data.draw(documents)
    text = data.draw(layouts(old))
    new = data.draw(documents | st.just(old))
    if data.draw(st.booleans()):
        path = data.draw(st.sampled_from(paths_of(old)))
        new = tree.put(old, path, data.draw(values)) if path else old
    edits = tree.diff(old, new)
    edited = source.rewrite(text, edits)
    assert tree.same(pyjson5.decode(edited), new)
    if all(edit.kind == "put" and not tree.has(old, edit.path) for edit in edits):
        assert re.findall(r"c\d+!", edited) == re.findall(r"c\d+!", text)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_taking_one_key_away_keeps_every_comment_outside_its_value(data):
    old = data.draw(documents.filter(bool))
    text = data.draw(layouts(old))
    key = data.draw(st.sampled_from(sorted(old)))
    member = next(member for member in source.read(text).members if member.key == key)
    inside = set(re.findall(r"c\d+!", text[member.start : member.value.end]))
    edited = drop(text, (key,))
    assert tree.same(pyjson5.decode(edited), tree.drop(old, (key,)))
    assert set(re.findall(r"c\d+!", edited)) >= set(re.findall(r"c\d+!", text)) - inside


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_setting_an_existing_value_keeps_all_other_bytes(data):
    old = data.draw(documents)
    text = data.draw(layouts(old))
    path = data.draw(st.sampled_from(paths_of(old)))
    new = data.draw(scalars)
    if not path or tree.same(tree.find(old, path), new):
        return
    node = source.read(text)
    for part in path:
        found = source._find(node, part)
        assert found is not None
        node = found.value
    edited = put(text, path, new)
    assert edited.startswith(text[: node.start])
    assert edited.endswith(text[node.end :])
    assert tree.same(tree.find(pyjson5.decode(edited), path), new)
