"""The shipped skills: whole, usable, and their programs do what they say."""

import runpy
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from openclaw.skills.find import bundled
from openclaw.skills.settings import SkillsSettings
from openclaw.skills.store import shipped_digests
from tests.skills.loopback import serving

NAMES = ["git", "healthcheck", "notes", "pdf-and-docs", "python", "skill-creator", "weather"]


def run(script: str, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-B", str(bundled() / script), *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=120,
    )


def test_the_digests_are_those_of_the_files():
    sealing = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "seal-skills"))
    assert sealing["digests"]() == shipped_digests(), "a shipped skill was edited: scripts/seal-skills"
    assert sorted(shipped_digests()) == NAMES


def test_all_are_offered_and_trusted(bench):
    bench.bins = {"git", "python3"}
    shelf = bench.library.look(bench.places(), SkillsSettings(), bench.machine)
    assert [item.skill.name for item in shelf.usable] == NAMES
    for item in shelf.items:
        assert item.trust.state == "trusted" and item.trust.by == "package"
        assert item.skill.manifest.notes == () and item.skill.outside == ()
        assert item.skill.manifest.permissions.declared
        assert not item.quiet
        assert len(item.skill.manifest.description) < 300


def test_commands_named_in_the_skills_exist():
    import re

    from openclaw.cli.extensions.skills import skills_command

    known = set(skills_command.commands)
    for path in bundled().glob("*/SKILL.md"):
        for verb in re.findall(r"openclaw skills (\w+)", path.read_text()):
            assert verb in known, f"{path}: {verb}"


PLACE = {"results": [
    {"name": "Springfield", "admin1": "Missouri", "country": "United States", "latitude": 37.2, "longitude": -93.3},
    {"name": "Springfield", "admin1": "Illinois", "country": "United States", "latitude": 39.8, "longitude": -89.6},
]}  # fmt: skip
FORECAST = {
    "current": {"weather_code": 61, "temperature_2m": 12.5, "apparent_temperature": 11, "wind_speed_10m": 9,
                "relative_humidity_2m": 80},
    "current_units": {"temperature_2m": "°C", "wind_speed_10m": "km/h"},
    "daily": {"time": ["2026-11-15"], "weather_code": [3], "temperature_2m_min": [8], "temperature_2m_max": [14],
              "precipitation_sum": [1.2], "precipitation_probability_max": [70]},
    "daily_units": {"precipitation_sum": "mm"},
}  # fmt: skip


def weather(pages, *arguments) -> Any:
    with serving(pages) as address:
        return run(
            "weather/scripts/weather.py", *arguments, "--places-url", f"{address}/p", "--forecast-url", f"{address}/f"
        )


def test_the_weather_is_told_for_the_place_that_was_meant():
    done = weather({"/p": PLACE, "/f": FORECAST}, "Springfield, Illinois", "--days", "1")
    assert done.stdout.splitlines() == [
        "Springfield, Illinois, United States",
        "now: light rain, 12.5°C (feels like 11), wind 9 km/h, humidity 80 %",
        "2026-11-15: overcast, 8 to 14, rain 1.2 mm (70 %)",
    ]


@pytest.mark.parametrize(
    ("pages", "said"),
    [
        ({"/p": {}}, "there is no place called"),
        ({"/p": 500}, "cannot be reached"),
        ({"/p": PLACE, "/f": {"odd": 1}}, "makes no sense"),
        ({"/p": b"not json"}, "makes no sense"),
    ],
)
def test_no_weather_is_said_not_guessed(pages, said):
    done = weather(pages, "Nowhere")
    assert done.returncode == 1 and said in done.stderr and done.stdout == ""


def python(tmp_path, program: str, *arguments: str) -> Any:
    (tmp_path / "task.py").write_text(program)
    return run("python/scripts/run_python.py", "task.py", *arguments, cwd=tmp_path)


def test_a_small_program_runs_apart(tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "secret")
    program = "import os, sys\nopen('left','w').close()\nprint(6*7, 'SOME_API_KEY' in os.environ, sys.argv[1])"
    (tmp_path / "in.csv").write_text("x")
    done = python(tmp_path, program, "--", "in.csv")
    assert done.stdout.split() == ["42", "False", str(tmp_path / "in.csv")]
    assert not (tmp_path / "left").exists()


def test_a_program_that_does_not_end_is_ended(tmp_path):
    done = python(tmp_path, "while True: pass", "--time", "1")
    assert done.returncode in (124, 128 + 9, 128 + 24)


def test_a_program_that_wants_everything_does_not_get_it(tmp_path):
    done = python(tmp_path, "x = bytearray(900 << 20)", "--memory", "200")
    assert done.returncode == 1 and "MemoryError" in done.stdout
    done = python(tmp_path, "print('x' * 1_000_000)")
    assert len(done.stdout) <= 200_001 and "only the first" in done.stderr


def zipped(path: Path, member: str, text: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, text)
    return path


W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
DOCX = (
    f"<w:document {W}><w:body>"
    '<w:p><w:pPr><w:pStyle w:val="Heading2"/></w:pPr><w:r><w:t>Plan</w:t></w:r></w:p>'
    "<w:p><w:pPr><w:numPr/></w:pPr><w:r><w:t>first</w:t></w:r></w:p>"
    "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>a|b</w:t></w:r></w:p></w:tc><w:tc><w:p/></w:tc></w:tr></w:tbl>"
    "</w:body></w:document>"
)
SLIDE = '<p xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"><a:p><a:r><a:t>Hello</a:t></a:r></a:p></p>'
ODT = (
    '<d xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0">'
    '<text:h text:outline-level="1">Top</text:h><text:p>Body</text:p></d>'
)


def read(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run("pdf-and-docs/scripts/read_document.py", str(path), *arguments)


def test_documents_become_markdown(tmp_path):
    word = read(zipped(tmp_path / "b.docx", "word/document.xml", DOCX)).stdout
    assert word.split("\n")[:4] == ["## Plan", "- first", "| a\\|b |  |", "|---|---|"]
    assert read(zipped(tmp_path / "c.pptx", "ppt/slides/slide1.xml", SLIDE)).stdout == "## Slide 1\n- Hello\n"
    assert read(zipped(tmp_path / "d.odt", "content.xml", ODT)).stdout == "# Top\nBody\n"
    (tmp_path / "e.html").write_text("<head><title>x</title></head><h1>Hi</h1><script>no()</script><p>there</p>")
    assert read(tmp_path / "e.html").stdout == "# Hi\n\nthere\n"
    assert read(tmp_path / "e.html", "--max-chars", "3").stdout == "# H\n"


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.docx", b"not a zip", "cannot be read"),
        ("a.xyz", b"", "not a kind of document"),
        ("missing.docx", None, "cannot be read"),
    ],
)
def test_a_document_that_cannot_be_read_says_why(tmp_path, name, data, said):
    if data is not None:
        (tmp_path / name).write_bytes(data)
    done = read(tmp_path / name)
    assert done.returncode == 1 and said in done.stderr and "Traceback" not in done.stderr


def test_a_document_that_defines_entities_is_refused(tmp_path):
    path = zipped(tmp_path / "a.odt", "content.xml", '<!DOCTYPE d [<!ENTITY a "aaaa">]><d>&a;</d>')
    assert "defines entities" in read(path).stderr
