"""Listing directories of any size and with any names."""

import os
from pathlib import Path

import pytest

from openclaw.tools.files import LsTool

pytestmark = pytest.mark.anyio


async def test_names_are_quoted_sorted_and_directories_marked(workspace, call):
    for name in ("b.txt", ".hidden", "Z.txt", "\u00e9.txt"):
        (workspace / name).write_text("")
    (workspace / "a").mkdir()
    (workspace / "link").symlink_to("a")
    (workspace / "broken").symlink_to("nowhere")
    output = await call(LsTool())
    assert output.text == '".hidden"\n"Z.txt"\n"a/"\n"b.txt"\n"broken"\n"link/"\n"\u00e9.txt"'


async def test_an_empty_directory_says_so(call):
    assert (await call(LsTool())).text == "(empty directory)"


async def test_a_long_listing_is_read_on(workspace, call):
    for n in range(12):
        (workspace / f"f{n:02}").write_text("")
    first = await call(LsTool(), limit=5)
    assert first.text.endswith('"f04"\n\n[7 more entries. Use after="f04" to continue.]')
    second = await call(LsTool(), limit=5, after="f04")
    assert second.text.startswith('"f05"')
    third = await call(LsTool(), limit=5, after="f09")
    assert third.text == '"f10"\n"f11"'
    assert (await call(LsTool(), after="f11")).text == "(no entries after that name)"


async def test_five_hundred_names_are_the_default(workspace, call):
    for n in range(505):
        (workspace / f"{n:04}").write_text("")
    output = await call(LsTool())
    assert "[5 more entries." in output.text
    assert output.details["entries"] == 500


async def test_long_names_are_capped_by_size_without_losing_the_thread(workspace, call):
    for n in range(300):
        (workspace / (f"{n:04}" + "x" * 240)).write_text("")
    output = await call(LsTool(), limit=1000)
    assert len(output.text) < 52 * 1024
    shown = output.details["entries"]
    assert output.details["remaining"] == 300 - shown
    following = await call(LsTool(), after=f"{shown - 1:04}" + "x" * 240)
    assert following.text.startswith(f'"{shown:04}')


async def test_wild_names_stay_on_their_lines(workspace, call):
    (workspace / "new\nline").write_text("")
    (workspace / 'quo"te').write_text("")
    Path(os.fsdecode(os.fsencode(workspace) + b"/bad\xff")).write_text("")
    lines = (await call(LsTool())).text.split("\n")
    assert lines == ['"bad\\udcff"', '"new\\nline"', '"quo\\"te"']


async def test_a_file_or_nothing_is_not_listed(workspace, call):
    (workspace / "notes").write_text("")
    assert "use read" in (await call(LsTool(), path="notes")).text
    output = await call(LsTool(), path="note")
    assert output.is_error
    assert output.text == f"Directory not found: {workspace}/note. Did you mean: {workspace}/notes?"


async def test_a_confined_listing_stays_inside(call):
    assert (await call(LsTool(workspace_only=True), path="..")).is_error
    assert (await call(LsTool(), path="..")).text == '"workspace/"'


async def test_a_directory_deep_below_is_listed(workspace, call):
    deep = workspace
    for _ in range(200):
        deep = deep / "d"
    deep.mkdir(parents=True)
    (deep / "leaf").write_text("")
    assert (await call(LsTool(), path=str(deep))).text == '"leaf"'
