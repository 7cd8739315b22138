"""Which hooks are found, and what is said of those that are not."""

from pathlib import Path

import pytest

from openclaw.plugins.hooks.find import BUNDLED
from tests.plugins.hook_files.support import look, put


def names(tmp_path: Path, source: str = "openclaw-managed") -> list[str]:
    return [hook.name for hook in look((tmp_path, source)).hooks]  # type: ignore[arg-type]


def test_a_directory_with_a_hook_md_is_a_hook(tmp_path: Path) -> None:
    put(
        tmp_path, "greet", "command:new, message", more="    requires: {bins: [sh], env: [GREETING]}\n    os: [macos]\n"
    )
    (tmp_path / "no-hook").mkdir()
    (hook,) = look((tmp_path, "openclaw-managed")).hooks
    assert hook.manifest.events == ("command:new", "message")
    assert hook.manifest.requires.bins == ("sh",) and hook.manifest.requires.env == ("GREETING",)
    assert hook.manifest.os == ("darwin",)
    assert hook.kind == "python" and hook.handler.endswith("handler.py") and hook.problem == ""


def test_metadata_may_be_json_as_hooks_in_the_wild_have_it(tmp_path: Path) -> None:
    directory = put(tmp_path, "json")
    (directory / "HOOK.md").write_text(
        '---\nname: json\nmetadata: {"openclaw": {"events": ["gateway:startup"], "export": "default"}}\n---\n'
    )
    (hook,) = look((tmp_path, "openclaw-managed")).hooks
    assert hook.manifest.events == ("gateway:startup",) and hook.manifest.export == "handler"


def test_later_places_replace_earlier_ones_but_a_workspace_only_adds(tmp_path: Path) -> None:
    for place in ("extra", "managed", "workspace"):
        put(tmp_path / place / "hooks", "same")
    put(tmp_path / "workspace" / "hooks", "mine")
    found = look(
        (BUNDLED, "openclaw-bundled"),
        (tmp_path / "extra" / "hooks", "openclaw-extra"),
        (tmp_path / "managed" / "hooks", "openclaw-managed"),
        (tmp_path / "workspace" / "hooks", "openclaw-workspace"),
    )
    by_name = {hook.name: hook for hook in found.hooks}
    assert by_name["same"].source == "openclaw-managed"
    assert by_name["mine"].workspace == str(tmp_path / "workspace")
    assert {"boot-md", "session-memory", "command-logger", "bootstrap-extra-files"} <= set(by_name)
    assert any("same is there already" in each.message for each in found.diagnostics)


def test_a_package_names_the_hooks_it_holds(tmp_path: Path) -> None:
    put(tmp_path / "pack", "one")
    put(tmp_path / "pack" / "deep", "two")
    (tmp_path / "pack" / "package.json").write_text('{"openclaw": {"hooks": ["one", "deep/two", "../../outside"]}}')
    found = look((tmp_path, "openclaw-managed"))
    assert sorted(hook.name for hook in found.hooks) == ["one", "two"]
    assert any("leads out" in each.message for each in found.diagnostics)


def test_a_link_out_of_the_directory_is_not_followed(tmp_path: Path) -> None:
    put(tmp_path / "elsewhere", "evil")
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks" / "evil").symlink_to(tmp_path / "elsewhere" / "evil")
    found = look((tmp_path / "hooks", "openclaw-managed"))
    assert found.hooks == () and "leads out" in found.diagnostics[0].message


BROKEN = {
    "no front matter": ("just words", "no front matter"),
    "not closed": ("---\nname: x\n", "does not end"),
    "no events": ("---\nname: x\ndescription: y\n---\n", "names no events"),
    "a name that is a path": ("---\nname: ../x\nmetadata: {openclaw: {events: [command]}}\n---\n", "cannot be used"),
    "an export that is code": (
        "---\nname: x\nmetadata: {openclaw: {events: [command], export: 'a.b()'}}\n---\n",
        "not the name of a function",
    ),
    "a bomb": ("---\na: &a [x,x]\nb: &b [*a,*a]\nmetadata: {openclaw: {events: [*b]}}\n---\n", "names no events"),
}


@pytest.mark.parametrize(("text", "said"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_hook_md_is_named_and_its_neighbours_load(tmp_path: Path, text: str, said: str) -> None:
    put(tmp_path, "good")
    (put(tmp_path, "bad") / "HOOK.md").write_text(text)
    found = look((tmp_path, "openclaw-managed"))
    assert [hook.name for hook in found.hooks] == ["good"]
    (problem,) = found.diagnostics
    assert said in problem.message and problem.path.endswith("bad/HOOK.md")


def test_bytes_that_are_no_text_and_files_without_end_are_named(tmp_path: Path) -> None:
    (put(tmp_path, "binary") / "HOOK.md").write_bytes(b"---\n\xff\xfe\n---\n")
    (put(tmp_path, "large") / "HOOK.md").write_text("---\n" + "a" * 100_000)
    found = look((tmp_path, "openclaw-managed"))
    assert found.hooks == ()
    assert sorted(each.message for each in found.diagnostics) == [
        "it has more than 65,536 bytes",
        "it is not UTF-8 text",
    ]


def test_a_handler_that_is_missing_or_of_another_kind_is_said(tmp_path: Path) -> None:
    put(tmp_path, "none", code=None)
    (put(tmp_path, "script", code=None) / "handler.ts").write_text("export default async () => {}")
    (put(tmp_path, "plain", code=None) / "handler.sh").write_text("echo hello")
    problems = {hook.name: hook.problem for hook in look((tmp_path, "openclaw-managed")).hooks}
    assert problems["none"].startswith("it has no handler")
    assert problems["script"].startswith("handler.ts is not run here")
    assert "chmod +x" in problems["plain"]


def test_events_that_never_come_are_noted(tmp_path: Path) -> None:
    put(tmp_path, "hopeful", "message:transcribed, message:telepathy, command:anything")
    (hook,) = look((tmp_path, "openclaw-managed")).hooks
    first, second = hook.manifest.notes
    assert "speech" in first and "telepathy" in second
