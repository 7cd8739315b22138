"""Where skills are found, which of them wins, and what is passed over without a fuss."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from openclaw.extensions.find import expand_path
from openclaw.skills.find import PRECEDENCE, PluginDirectory, package_directories, roots
from openclaw.skills.settings import LimitSettings, SkillsSettings
from tests.skills.conftest import Bench, names, put, usable

EVERYTHING = SkillsSettings(trust="off")


def everywhere(bench: Bench) -> dict[str, Path]:
    """One directory for each source, by precedence."""
    return {
        "cli": bench.top / "given",
        "openclaw-workspace": bench.workspace / "skills",
        "agents-skills-project": bench.cwd / ".agents" / "skills",
        "agents-skills-personal": bench.home / ".agents" / "skills",
        "package": bench.top / "package",
        "plugin": bench.top / "plugin",
        "openclaw-managed": bench.state / "skills",
        "openclaw-extra": bench.top / "extra",
    }


def look_everywhere(bench: Bench, settings: SkillsSettings = EVERYTHING) -> Any:
    bench.plugins = ("p",)
    where = everywhere(bench)
    return bench.look(
        settings,
        given=(where["cli"],),
        packages=(where["package"],),
        plugins=(PluginDirectory("p", where["plugin"]),),
        extra=(where["openclaw-extra"],),
    )


def test_every_place_is_looked_in(bench):
    for source, path in everywhere(bench).items():
        put(path / f"from-{source}")
    found = {item.skill.source: item.skill.name for item in look_everywhere(bench).items}
    assert found == {source: f"from-{source}" for source in everywhere(bench)}
    assert set(PRECEDENCE) - set(found) == {"openclaw-bundled"}


@pytest.mark.parametrize("low", range(1, 8))
@pytest.mark.parametrize("high", range(7))
def test_the_higher_place_wins(bench, high, low):
    if high >= low:
        return
    where = list(everywhere(bench).items())
    for source, path in (where[high], where[low]):
        put(path / "same", description=f"From {source}.")
    shelf = look_everywhere(bench)
    assert shelf.get("same").skill.source == where[high][0]
    (clash,) = shelf.collisions
    assert str(clash).startswith(f'Skill precedence collision: skill="same" winner={where[high][0]}:')


def test_two_equal_copies_are_no_clash(bench):
    put(bench.mine / "same")
    put(bench.state / "skills" / "same")
    assert bench.look().collisions == ()


def test_a_shipped_skill_can_be_replaced_by_your_own(bench):
    put(bench.mine / "weather", description="My own.")
    assert bench.one("weather").skill.manifest.description == "My own."


def test_pi_directories_come_right_after_agents_directories(bench):
    put(bench.cwd / ".pi" / "skills" / "same", description="pi")
    put(bench.cwd / ".agents" / "skills" / "same", description="agents")
    put(bench.home / ".pi" / "agent" / "skills" / "other")
    shelf = bench.look(EVERYTHING)
    assert shelf.get("same").skill.manifest.description == "agents"
    assert "other" in names(shelf)


def test_the_directory_above_is_not_looked_in(bench):
    put(bench.cwd / ".agents" / "skills" / "above")
    bench.cwd = bench.cwd / "inner"
    bench.cwd.mkdir()
    assert names(bench.look(EVERYTHING)) == []


def test_working_in_the_home_directory_does_not_make_your_skills_foreign(bench):
    put(bench.home / ".agents" / "skills" / "mine")
    bench.cwd = bench.home
    assert bench.one("mine").skill.source == "agents-skills-personal"


def test_folders_only_sort_and_the_name_is_flat(bench):
    put(bench.mine / "personal" / "foo", "flat")
    (item,) = bench.look().items
    assert item.skill.name == "flat"
    assert item.skill.file_path.endswith("skills/personal/foo/SKILL.md")


def test_six_folders_deep_is_found_and_seven_is_not(bench):
    put(bench.mine / "a/b/c/d/e/six")
    put(bench.mine / "a/b/c/d/e/f/seven")
    assert names(bench.look()) == ["six"]


def test_nothing_below_a_skill_is_a_skill(bench):
    put(bench.mine / "outer")
    put(bench.mine / "outer" / "examples" / "inner")
    put(bench.mine / "node_modules" / "dependency")
    put(bench.mine / ".hidden" / "secret")
    assert names(bench.look()) == ["outer"]


def test_a_root_may_itself_be_a_skill(bench):
    put(bench.top / "single")
    assert names(bench.look(given=(bench.top / "single",))) == ["single"]


def test_a_bad_neighbour_costs_nothing(bench):
    put(bench.mine / "good")
    (bench.mine / "bad").mkdir()
    (bench.mine / "bad" / "SKILL.md").write_text("no front matter")
    shelf = bench.look()
    assert names(shelf) == ["good"]
    (note,) = shelf.diagnostics
    assert "bad/SKILL.md: it has no front matter" in str(note)


def test_a_file_one_byte_too_large_is_left_out(bench):
    for name, size in (("fits", 256_000), ("large", 256_001)):
        path = put(bench.mine / name)
        path.write_bytes(path.read_bytes().ljust(size, b"x"))
    shelf = bench.look()
    assert names(shelf) == ["fits"]
    assert "256,001 bytes; 256,000 is the most" in str(shelf.diagnostics[0])


def test_five_megabytes_are_not_even_read(bench):
    path = put(bench.mine / "huge")
    path.write_bytes(b"---\n" + b"x" * (5 << 20))
    shelf = bench.look()
    assert names(shelf) == []
    assert bench.library.hasher.files_read == len([0 for _ in _shipped_files()])


def _shipped_files() -> Any:
    from openclaw.skills.find import bundled

    return [
        path
        for path in bundled().rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.parent != bundled()
    ]


def test_ten_thousand_folders_are_cut_short(bench):
    root = bench.mine
    root.mkdir()
    for number in range(10_000):
        (root / f"{number:05}").mkdir()
    put(root / "00007")
    shelf = bench.look()
    assert names(shelf) == ["00007"]
    assert any("more than 300 directories" in str(note) for note in shelf.diagnostics)


def test_two_hundred_skills_of_one_source_are_enough(bench):
    for number in range(205):
        put(bench.mine / f"s{number:03}")
    shelf = bench.look()
    assert len(shelf.items) == 200
    assert any("more than 200 skills" in str(note) for note in shelf.diagnostics)


def test_limits_can_be_set(bench):
    for number in range(5):
        put(bench.mine / f"s{number}")
    settings = SkillsSettings(limits=LimitSettings(max_skills_loaded_per_source=2))
    assert len(bench.look(settings).items) == 2


def test_a_link_out_of_the_workspace_is_left_out_unless_allowed(bench):
    put(bench.top / "elsewhere" / "linked")
    bench.mine.mkdir()
    (bench.mine / "linked").symlink_to(bench.top / "elsewhere" / "linked")
    shelf = bench.look()
    assert names(shelf) == []
    assert shelf.diagnostics[0].kind == "symlink-escape"
    assert names(bench.look(link_targets=(bench.top / "elsewhere",))) == ["linked"]


def test_your_own_directories_may_hold_links(bench):
    put(bench.top / "elsewhere" / "linked")
    for root in (bench.state / "skills", bench.home / ".agents" / "skills"):
        root.mkdir(parents=True)
        (root / "linked").symlink_to(bench.top / "elsewhere" / "linked")
    assert usable(bench.look()) == ["linked"]


def test_a_skill_file_that_is_a_link_is_left_out(bench):
    put(bench.top / "elsewhere")
    (bench.mine / "sly").mkdir(parents=True)
    (bench.mine / "sly" / "SKILL.md").symlink_to(bench.top / "elsewhere" / "SKILL.md")
    shelf = bench.look()
    assert names(shelf) == []
    assert shelf.diagnostics[0].kind == "path-escape"


def test_links_that_go_in_circles_end(bench):
    put(bench.mine / "group" / "good")
    (bench.mine / "group" / "loop").symlink_to(bench.mine)
    (bench.mine / "self").symlink_to(bench.mine / "self")
    (bench.state / "skills").mkdir()
    (bench.state / "skills" / "round").symlink_to(bench.state / "skills")
    assert names(bench.look()) == ["good"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_root_nobody_may_read_is_a_line_and_no_more(bench):
    put(bench.mine / "a")
    put(bench.state / "skills" / "b")
    bench.mine.chmod(0)
    try:
        shelf = bench.look()
    finally:
        bench.mine.chmod(0o755)
    assert names(shelf) == ["b"]
    assert shelf.diagnostics[0].kind == "unreadable"


def test_a_root_that_is_a_file_is_a_line_and_no_more(bench):
    bench.mine.write_text("not a directory")
    shelf = bench.look()
    assert names(shelf) == []
    assert shelf.diagnostics[0].kind == "unreadable"


def test_a_pipe_in_place_of_the_file_is_not_waited_for(bench):
    (bench.mine / "pipe").mkdir(parents=True)
    os.mkfifo(bench.mine / "pipe" / "SKILL.md")
    assert "not a regular file" in str(bench.look().diagnostics[0])


def test_a_path_with_control_characters_is_left_out(bench):
    put(bench.mine / "a\nb", "fine")
    shelf = bench.look()
    assert names(shelf) == []
    assert "control characters" in str(shelf.diagnostics[0])


def test_a_skill_that_goes_away_is_gone_at_the_next_look(bench):
    put(bench.mine / "a")
    put(bench.mine / "b")
    assert names(bench.look()) == ["a", "b"]
    shutil.rmtree(bench.mine / "a")
    assert names(bench.look()) == ["b"]


def test_a_second_look_reads_nothing_that_did_not_change(bench):
    for number in range(20):
        put(bench.mine / f"s{number}")
        (bench.mine / f"s{number}" / "data.txt").write_text("x")
    bench.look()
    read = bench.library.hasher.files_read
    bench.look()
    assert bench.library.hasher.files_read == read
    put(bench.mine / "s3", description="Another.")
    os.utime(bench.mine / "s3" / "SKILL.md", (bench.time - 5_000, bench.time - 5_000))
    assert bench.one("s3").skill.manifest.description == "Another."
    assert bench.library.hasher.files_read == read + 1


def test_a_file_that_just_changed_is_read_again_to_be_sure(bench):
    path = put(bench.mine / "a", description="one")
    bench.time = path.stat().st_mtime
    bench.look()
    path.write_text(path.read_text().replace("one", "two"))
    stamp = path.stat()
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert bench.one("a").skill.manifest.description == "two"


def test_paths_in_the_settings_start_at_home_or_here(tmp_path):
    home, here = tmp_path / "h", tmp_path / "w"
    assert expand_path("~/x", home, here) == home / "x"
    assert expand_path("~", home, here) == home
    assert expand_path("x", home, here) == here / "x"
    assert expand_path("/abs", home, here) == Path("/abs")


def test_a_package_is_found_by_its_entry_point_and_never_imported(bench, tmp_path, monkeypatch):
    package = tmp_path / "site" / "nice_skills"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    put(package / "skills" / "packaged")
    info = tmp_path / "site" / "nice_skills-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: nice-skills\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[openclaw.skills]\nnice = nice_skills\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert package_directories() == (package / "skills",)
    item = bench.one("packaged", packages=package_directories())
    assert item.skill.source == "package"
    assert not item.verdict.eligible
    assert [root.source for root in roots(bench.places(packages=package_directories()))].count("package") == 1
