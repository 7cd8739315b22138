"""Where a path points, and where it may not."""

from pathlib import Path

import pytest

from openclaw.core.errors import InvalidRequest
from openclaw.tools.paths import (
    confine,
    format_size,
    missing_error,
    quote_path,
    relative,
    resolve_path,
)


def test_a_relative_path_is_meant_from_the_workspace(workspace):
    assert resolve_path("notes/a.md", workspace) == workspace / "notes/a.md"


def test_an_absolute_path_is_taken_as_it_is(workspace):
    assert resolve_path("/etc/hosts", workspace) == Path("/etc/hosts")


def test_home_is_expanded(workspace):
    assert resolve_path("~/x.txt", workspace) == Path.home() / "x.txt"
    assert resolve_path("~", workspace) == Path.home()


def test_a_mention_sign_is_dropped(workspace):
    (workspace / "notes.md").write_text("x")
    assert resolve_path("@notes.md", workspace) == workspace / "notes.md"
    assert resolve_path("@new.md", workspace) == workspace / "new.md"


def test_a_file_that_really_begins_with_the_sign_is_found(workspace):
    (workspace / "@types").mkdir()
    (workspace / "types").mkdir()
    assert resolve_path("@types", workspace) == workspace / "@types"
    assert resolve_path("@types/new.d.ts", workspace, creating=True) == workspace / "@types/new.d.ts"


@pytest.mark.parametrize("space", ["\u00a0", "\u202f", "\u3000"])
def test_odd_spaces_find_the_file_with_plain_ones_and_the_other_way_round(workspace, space):
    (workspace / "a b.txt").write_text("plain")
    (workspace / f"c{space}d.txt").write_text("odd")
    assert resolve_path(f"a{space}b.txt", workspace) == workspace / "a b.txt"
    assert resolve_path("c d.txt", workspace) == workspace / f"c{space}d.txt"


def test_the_literal_name_wins_over_the_plain_one(workspace):
    (workspace / "a b.txt").write_text("plain")
    (workspace / "a\u00a0b.txt").write_text("odd")
    assert resolve_path("a\u00a0b.txt", workspace) == workspace / "a\u00a0b.txt"


def test_a_new_file_with_a_curly_quote_does_not_overwrite_its_straight_twin(workspace):
    (workspace / "it's.md").write_text("keep me")
    assert resolve_path("it\u2019s.md", workspace, creating=True) == workspace / "it\u2019s.md"
    assert resolve_path("it\u2019s.md", workspace) == workspace / "it's.md"


@pytest.mark.parametrize("raw", ["", "   ", "a\0b"])
def test_a_path_that_cannot_be_is_refused(workspace, raw):
    with pytest.raises(InvalidRequest):
        resolve_path(raw, workspace)


def test_dots_are_followed_after_links(workspace, tmp_path):
    (tmp_path / "far" / "deep").mkdir(parents=True)
    (workspace / "link").symlink_to(tmp_path / "far" / "deep")
    assert resolve_path("link/../x", workspace) == tmp_path / "far" / "x"


@pytest.mark.parametrize("raw", ["../outside.txt", "/etc/passwd", "~/x", "link/secret", "link", "a/../../x"])
def test_nothing_leads_out_of_a_confined_workspace(workspace, tmp_path, raw):
    (tmp_path / "outside").mkdir()
    (workspace / "link").symlink_to(tmp_path / "outside")
    with pytest.raises(InvalidRequest, match="outside the workspace"):
        resolve_path(raw, workspace, workspace_only=True)


def test_a_link_within_the_workspace_is_fine(workspace):
    (workspace / "real").mkdir()
    (workspace / "link").symlink_to(workspace / "real")
    assert resolve_path("link/x", workspace, workspace_only=True) == workspace / "link/x"


def test_a_workspace_that_is_itself_a_link_confines_to_its_target(workspace, tmp_path):
    alias = tmp_path / "alias"
    alias.symlink_to(workspace)
    assert resolve_path("x", alias, workspace_only=True) == alias / "x"


def test_a_link_may_be_touched_itself_even_if_it_points_out(workspace, tmp_path):
    (workspace / "link").symlink_to(tmp_path)
    confine(workspace / "link", workspace, follow=False)
    with pytest.raises(InvalidRequest):
        confine(workspace / "link", workspace)


def test_the_closest_name_is_suggested(workspace):
    (workspace / "README.md").write_text("x")
    message = missing_error(workspace / "Readme.md").message
    assert message == f"File not found: {workspace}/Readme.md. Did you mean: {workspace}/README.md?"
    assert missing_error(workspace / "zzzz").message == f"File not found: {workspace}/zzzz."


def test_a_name_with_a_newline_stays_on_its_line():
    assert quote_path("a\nb") == '"a\\nb"'
    assert quote_path("plain name.txt") == "plain name.txt"


def test_paths_are_given_back_as_the_next_call_needs_them(workspace):
    assert relative(workspace / "a" / "b", workspace) == "a/b"
    assert relative(Path("/elsewhere/b"), workspace) == "/elsewhere/b"


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 bytes"), (51200, "50 KB"), (80_000, "78.1 KB"), (5 * 1024**2, "5 MB"), (1024**4, "1 TB")]
)
def test_sizes_read_like_sizes(count, text):
    assert format_size(count) == text
