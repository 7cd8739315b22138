"""Without any model: what the assistant still can do, through the real loop and the real tools."""

import re
import time
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path

import pytest

from openclaw.gateway.app import App, open_app
from openclaw.models.providers.offline import HOW_TO_ADD_A_MODEL, outline, parse_abilities
from openclaw.process.environment import Environment
from openclaw.testing import FakeClock, Heard, ScriptedApprover, TemporaryHome, ask

pytestmark = pytest.mark.anyio

FOOTER = "\n\n(Answered offline, without a model.)"


class Here:
    """An assistant without a model, for a person at a terminal in `place`."""

    def __init__(self, app: App, place: Path, approver: ScriptedApprover) -> None:
        self.app = app
        self.place = place
        self.approver = approver

    async def hears(self, text: str) -> Heard:
        return await ask(self.app, text, place=str(self.place))

    async def says(self, text: str) -> str:
        """The answer to `text`, without the line that says how it was made."""
        heard = await self.hears(text)
        assert heard.text.endswith(FOOTER)
        return heard.text.removesuffix(FOOTER)


@pytest.fixture
async def here(openclaw_home: TemporaryHome, tmp_path: Path) -> AsyncIterator[Here]:
    place = tmp_path / "project"
    (place / "docs").mkdir(parents=True)
    (place / "README.md").write_text("# Tea\n\nHow to make tea. It is easy.\n\n## Water\n\nBoil it first, please.\n")
    (place / "docs" / "cups.txt").write_text("a cup of tea\n")
    approver = ScriptedApprover("allow-once")
    environment = Environment(environ=openclaw_home.environ, home_dir=openclaw_home.root, cwd=place)
    async with open_app(environment, clock=FakeClock(), approver=approver) as app:
        yield Here(app, place, approver)


@pytest.mark.parametrize("words", ["list files", "what files are here?", "ls", "show me the files in this directory"])
async def test_it_lists_the_files_where_the_person_is(here: Here, words: str) -> None:
    assert await here.says(words) == f"Files in {here.place}:\n- README.md\n- docs/"


@pytest.mark.parametrize("words", ["list the files in docs", "ls docs/", "which files are in the folder docs?"])
async def test_it_lists_a_directory_by_name(here: Here, words: str) -> None:
    answer = await here.says(words)
    assert answer.splitlines()[1:] == ["- cups.txt"]


async def test_it_lists_odd_names_and_many_of_them(here: Here) -> None:
    odd = here.place / "odd"
    odd.mkdir()
    for number in range(700):
        (odd / f"{number:03}.txt").touch()
    (odd / '"quoted" and [more].txt').touch()
    answer = (await here.says("list odd/")).splitlines()
    assert answer[1] == '- "quoted" and [more].txt'
    assert len(answer) == 62
    assert answer[-1] == "… and 641 more"


async def test_it_says_that_a_directory_is_empty_or_missing(here: Here) -> None:
    (here.place / "empty").mkdir()
    assert await here.says("list empty/") == "empty/ is empty."
    assert (await here.says("list nothing/")).startswith("That did not work: Directory not found")


async def test_it_finds_files_by_pattern(here: Here) -> None:
    assert "docs/cups.txt" in await here.says("find all *.txt files")
    assert "README.md" in await here.says("find README.md")


async def test_it_searches_for_words(here: Here) -> None:
    answer = await here.says('search for "CUP OF"')
    assert answer.startswith("Where “CUP OF” stands:\n")
    assert "cups.txt:1: a cup of tea" in answer


async def test_it_shows_a_file_with_its_own_backticks_fenced_in(here: Here) -> None:
    (here.place / "code.md").write_text("```\nx\n```\n")
    assert await here.says("show me code.md") == "code.md:\n````\n```\nx\n```\n````"


async def test_it_tells_a_file_by_its_headings(here: Here) -> None:
    assert await here.says("please summarise README.md") == (
        "What README.md says, by heading:\n- Tea: How to make tea. It is easy.\n  - Water: Boil it first, please."
    )


async def test_it_remembers_and_recalls(here: Here, openclaw_home: TemporaryHome) -> None:
    day = datetime.fromtimestamp(FakeClock().now()).strftime("%Y-%m-%d")
    first = await here.says("remember that the dentist is on Friday and costs 50 euros")
    second = await here.says("note: 牙医在星期五")
    assert first == f"Noted in memory/{day}.md: the dentist is on Friday and costs 50 euros"
    assert second.startswith(f"Noted in memory/{day}-2.md: ")
    notes = openclaw_home.workspace / "memory"
    assert "the dentist is on Friday and costs 50 euros" in (notes / f"{day}.md").read_text()
    assert "the dentist is on Friday" in await here.says("what did I say about the dentist?")
    assert "牙医在星期五" in await here.says("what do you know about 牙医?")
    assert await here.says("do you remember the plumber?") == "I have no note about the plumber."


async def test_a_note_never_overwrites_another_however_many_there_are(here: Here, openclaw_home: TemporaryHome) -> None:
    day = datetime.fromtimestamp(FakeClock().now()).strftime("%Y-%m-%d")
    notes = openclaw_home.workspace / "memory"
    notes.mkdir(exist_ok=True)
    for number in range(600):
        (notes / f"2020-{number:04}.md").write_text("old")
    (notes / f"{day}.md").write_text("precious")
    assert await here.says("remember the milk") == f"Noted in memory/{day}-2.md: the milk"
    assert (notes / f"{day}.md").read_text() == "precious"


async def test_it_tells_the_time_and_its_status(here: Here) -> None:
    now = datetime.fromtimestamp(FakeClock().now())
    assert await here.says("what time is it?") == f"It is {now.astimezone():%A, %Y-%m-%d, %H:%M %Z}."
    status = await here.says("status")
    assert status.startswith("Model: offline (no model configured).\nSession: ")
    assert f"Directory: {here.place}" in status
    assert "Tools: " in status and "edit, exec" in status


async def test_it_names_the_skills_in_the_workspace(here: Here, openclaw_home: TemporaryHome) -> None:
    assert (await here.says("what are your skills?")).startswith("I see no skills")
    skill = openclaw_home.workspace / "skills" / "brewing"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: brewing\n---\n")
    assert await here.says("list your skills") == "Skills in the workspace:\n- brewing"


async def test_it_runs_a_quoted_command_when_a_person_approves(here: Here) -> None:
    assert await here.says("run `echo 'a  b'`") == "`echo 'a  b'` says:\n```\na  b\n```"
    assert await here.says("run ``echo `echo deep` ``") == "`` echo `echo deep` `` says:\n```\ndeep\n```"
    assert [(request.command, request.cwd) for request in here.approver.asked] == [
        ("echo 'a  b'", str(here.place)),
        ("echo `echo deep`", str(here.place)),
    ]


async def test_it_does_not_run_what_nobody_approved(openclaw_home: TemporaryHome) -> None:
    environment = Environment(environ=openclaw_home.environ, home_dir=openclaw_home.root, cwd=openclaw_home.workspace)
    async with open_app(environment, clock=FakeClock(), approver=ScriptedApprover("deny")) as app:
        heard = await ask(app, "run `touch made`")
    assert heard.text.startswith("`touch made` did not succeed:\nNot run: the user said no.")
    assert not (openclaw_home.workspace / "made").exists()


async def test_it_does_several_things_one_message_asks_for(here: Here) -> None:
    heard = await here.hears("List the files in docs, then show docs/cups.txt and tell me the time.")
    assert len(heard.results) == 2
    text = heard.text
    assert text.index("- cups.txt") < text.index("a cup of tea") < text.index("It is ")


@pytest.mark.parametrize(
    "words",
    ["why is the sky blue?", "schreib mir bitte ein Gedicht", "今天天气怎么样？", "", "🤷", "sudo make me a sandwich"],
)
async def test_it_is_honest_about_everything_else_and_names_three_ways_to_add_a_model(here: Here, words: str) -> None:
    heard = await here.hears(words)
    assert heard.text == HOW_TO_ADD_A_MODEL + FOOTER
    ways = re.findall(r"^\d\. .*?`(.*?)`", heard.text, re.MULTILINE)
    # A running gateway takes up each of these. An exported key would stay in the terminal.
    assert ways == ["openclaw models auth", "openclaw models add http://host:port/v1"]
    assert "export" not in heard.text
    assert heard.end.usage.total_tokens == 0


HOSTILE = [
    "x" * 1_000_000,
    "find " * 250_000,
    "`" * 1_000_000,
    "and then " * 120_000,
    ("summarise " + "a/" * 190 + ". ") * 2_500,
    "find " + "*?" * 500_000,
    "\x000\x00 \x007\x00 " * 100_000,
    "run `" + "$(rm -rf /)" * 90_000 + "`",
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: repr(text[:12]))
async def test_a_megabyte_of_nonsense_is_answered_at_once(here: Here, text: str) -> None:
    began = time.process_time()
    heard = await here.hears(text)
    assert heard.text.endswith(FOOTER)
    assert all(result.is_error for result in heard.results)
    assert time.process_time() - began < 5


def test_understanding_takes_no_time() -> None:
    began = time.process_time()
    for text in HOSTILE:
        parse_abilities(text)
    assert time.process_time() - began < 1


def test_an_outline_skips_code_and_tables() -> None:
    text = "# A\n```\n# not a heading\n```\n| a | b |\nFirst *sentence* of [it](x). Second.\n\n### B ###\n"
    assert outline(text) == [(1, "A", "First sentence of it."), (3, "B", "")]


async def test_the_same_words_give_the_same_answer(here: Here) -> None:
    assert await here.says("list files") == await here.says("list files")
