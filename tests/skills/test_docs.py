"""`docs/skills.md` is true."""

import re
from pathlib import Path

import msgspec
import pytest

from openclaw.cli.extensions.skills import skills_command
from openclaw.config.load import load
from openclaw.process.environment import Home
from openclaw.skills.find import PRECEDENCE
from openclaw.skills.settings import SkillsSettings
from openclaw.skills.store import shipped_digests

PAGE = (Path(__file__).parents[2] / "docs" / "skills.md").read_text(encoding="utf-8")


def test_the_skill_on_the_page_works_when_dropped_in(bench):
    (text,) = re.findall(r"```markdown\n(.*?)```", PAGE, re.DOTALL)
    directory = bench.mine / "ffmpeg"
    (directory / "scripts").mkdir(parents=True)
    (directory / "SKILL.md").write_text(text, encoding="utf-8")
    (directory / "scripts" / "frames.sh").write_text('ffmpeg -i "$1" f%03d.png\n')
    item = bench.one("ffmpeg")
    assert item.verdict.reasons == ("not installed: ffmpeg",)
    assert item.verdict.remedies == ("Install ffmpeg (brew): brew install ffmpeg",)
    bench.bins.add("ffmpeg")
    item = bench.one("ffmpeg")
    assert item.verdict.eligible and item.trust.state == "trusted" and not item.quiet
    assert item.skill.manifest.permissions.tools == ("Read", "Bash(ffmpeg:*)")
    assert item.skill.outside == () and item.skill.manifest.notes == ()


@pytest.mark.parametrize("snippet", re.findall(r"```json5\n(.*?)```", PAGE, re.DOTALL))
def test_every_snippet_loads(tmp_path, snippet):
    home = Home(state=tmp_path, config=tmp_path / "openclaw.json")
    home.config.write_text(snippet, encoding="utf-8")
    home.config.chmod(0o600)
    loaded = load(home, {"NOTION_KEY": "k"})
    assert loaded.warnings == () and loaded.issues == ()


def test_every_command_is_on_the_page():
    for name in skills_command.commands:
        assert f"openclaw skills {name}" in PAGE, name


def test_the_tables_are_complete():
    sources = re.findall(r"^\| `([\w-]+)` \| .* \| (?:yours|ours|somebody's) \|$", PAGE, re.MULTILINE)
    assert tuple(sources) == PRECEDENCE
    section = PAGE.partition("## Shipped skills")[2]
    assert re.findall(r"^\| `([\w-]+)`", section, re.MULTILINE) == sorted(shipped_digests())


def test_every_setting_is_a_setting():
    known = {item.encode_name for item in msgspec.structs.fields(SkillsSettings)}
    for name in re.findall(r"`skills\.(\w+)", PAGE):
        assert name in known, name
