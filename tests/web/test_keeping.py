"""Files, notes, skills, jobs and money, in a real browser."""

import asyncio
import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from openclaw.testing import TemporaryHome, calls, says
from openclaw.testing.server import MockModelServer
from tests.web.support import SharedBrowser, Site, say, site, wait_idle

pytestmark = pytest.mark.system


def ask_gateway(here: Site, method: str, params: dict[str, Any]) -> Any:
    """A call beside the browser, whose driver keeps a loop in this thread."""

    async def call() -> Any:
        async with here.gateway.client() as client:
            return await client.call(method, params)

    with ThreadPoolExecutor(1) as aside:
        return aside.submit(asyncio.run, call()).result()


def test_a_file_shows_what_it_was_and_goes_back(openclaw_home: TemporaryHome, browser: SharedBrowser) -> None:
    with MockModelServer([calls("write", path="SOUL.md", content="Be loud.\n"), says("done")]) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here:
            page = here.open()
            page.click("nav a[href$='/files']")
            page.click("oc-files >> text=SOUL.md")
            page.fill(".editor textarea", "Be kind.\n")
            page.press(".editor textarea", "Control+s")
            page.wait_for_selector("text=SOUL.md is saved")
            page.click("nav a[href*='/chat']")
            say(page, "be loud")
            page.wait_for_selector("text=done")
            wait_idle(page)
            page.click("nav a[href$='/files']")
            page.click("oc-files >> text=SOUL.md")
            page.wait_for_function("() => document.querySelector('.editor textarea')?.value === 'Be loud.\\n'")
            page.click("text=History")
            page.wait_for_selector(".versions li >> nth=2")
            page.click(".versions button >> nth=0")
            assert page.inner_text(".versions .removed").strip() == "-Be kind."
            assert page.inner_text(".versions .added").strip() == "+Be loud."
            page.click(".versions button >> nth=1")
            page.click("text=Put this version into the editor")
            page.click(".editor .primary")
            page.wait_for_selector("text=SOUL.md is saved")
            assert (openclaw_home.workspace / "SOUL.md").read_text() == "Be kind.\n"
            page.wait_for_selector(".versions li >> nth=3")
            assert here.complaints == []


def test_a_note_is_opened_at_the_line_changed_and_found_changed(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    note = openclaw_home.workspace / "memory" / "home.md"
    note.parent.mkdir()
    lines = [f"Line {number} is about nothing." for number in range(1, 200)]
    lines[149] = "The boiler was serviced in March."
    note.write_text("\n".join(lines) + "\n")
    with site(openclaw_home, browser) as here:
        page = here.open()
        page.click("nav a[href$='/memory']")
        page.wait_for_selector(".notes >> text=memory/home.md")
        page.fill("oc-memory input[name=query]", "boiler serviced")
        page.press("oc-memory input[name=query]", "Enter")
        page.click(".note >> nth=0 >> text=Open")
        area = page.locator(".editor textarea")
        area.wait_for()
        page.wait_for_function("() => document.querySelector('.editor textarea')?.scrollTop > 500")
        selected = area.evaluate("each => each.value.slice(each.selectionStart, each.selectionEnd)")
        assert "The boiler was serviced in March." in selected
        area.fill(note.read_text().replace("March", "October"))
        page.keyboard.press("Control+s")
        page.wait_for_selector("text=memory/home.md is saved")
        assert "October" in note.read_text()
        note.write_text("somebody else\n")
        area.fill("mine\n")
        page.keyboard.press("Control+s")
        page.wait_for_selector(".problem >> text=has changed")
        assert note.read_text() == "somebody else\n"
        page.click("text=Undo changes")
        page.click("oc-memory >> text=New note")
        page.fill("dialog input", "memory/../../escaped.md")
        page.click("dialog .primary")
        page.wait_for_selector(".editor h2 >> text=new")
        page.fill(".editor textarea", "x")
        page.keyboard.press("Control+s")
        page.wait_for_selector(".problem >> text=not a note")
        assert not list(openclaw_home.root.rglob("escaped.md"))
        assert here.complaints == []


def test_a_changed_skill_is_looked_at_accepted_and_switched_off(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    skill = openclaw_home.workspace / "skills" / "packing" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: packing\ndescription: Packing lists.\n---\n\nAsk where.\n")
    with MockModelServer([says("hello")]) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here:
            page = here.open()
            say(page, "hi")
            page.wait_for_selector("text=hello")
            skill.write_text(skill.read_text() + "<img src=x onerror=window.ran=1>\n")
            page.click("nav a[href$='/skills']")
            card = page.locator("[data-skill=packing]")
            card.locator(".alert >> text=changed").wait_for()
            card.locator("text=Look").first.click()
            card.locator(".added").wait_for()
            assert card.locator(".added").inner_text().strip() == "+<img src=x onerror=window.ran=1>"
            card.locator("text=Accept it as it is").click()
            page.wait_for_selector("text=packing is accepted")
            card.locator(".badge >> text=accepted").wait_for()
            card.locator("text=Hold it back").click()
            card.locator(".alert >> text=held back").wait_for()
            weather = page.locator("[data-skill=weather]")
            weather.locator("text=Look").first.click()
            weather.locator("text=Switch off").click()
            weather.locator("text=It is switched off").wait_for()
            assert json.loads(openclaw_home.config_path.read_text())["skills"]["entries"]["weather"] == {
                "enabled": False
            }
            assert page.evaluate("window.ran") is None
            assert here.complaints == []


def test_a_job_is_made_run_changed_switched_off_and_deleted(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    with MockModelServer([says("the plants are watered")]) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here:
            page = here.open()
            page.click("nav a[href$='/schedule']")
            page.click("text=New job")
            page.fill("[name=name]", "Plants")
            page.fill("[name=asked]", "Water the plants")
            page.check("[name=kind][value=every]")
            page.fill("[name=count]", "3")
            page.select_option("[name=unit]", label="days")
            page.click(".job .primary")
            page.wait_for_selector("text=Plants is saved")
            row = page.locator("tr[data-job]")
            assert "every 3 days" in row.inner_text()
            (job,) = ask_gateway(here, "cron.list", {})["jobs"]
            assert (job["schedule"]["everyMs"], job["sessionTarget"]) == (3 * 86_400_000, "isolated")
            row.locator(".actions summary").click()
            row.locator("text=Run now").click()
            page.wait_for_selector("td >> text=the plants are watered")
            row.locator(".good >> text=done").wait_for()
            row.locator(".actions summary").click()
            row.locator("text=Change").click()
            page.check("[name=kind][value=cron]")
            page.fill("[name=expr]", "not a time")
            page.click(".job .primary")
            page.wait_for_selector(".page > .problem")
            page.fill("[name=expr]", "30 7 * * 1-5")
            page.click(".job .primary")
            row.locator("text=every weekday at 07:30").wait_for()
            row.locator(".actions summary").click()
            row.locator("text=Switch off").click()
            row.locator("td >> text=switched off").wait_for()
            row.locator(".actions summary").click()
            row.locator("text=Delete").click()
            page.click("dialog .primary")
            page.wait_for_selector("text=Nothing is planned")
            page.click("text=Switch heartbeats off")
            page.wait_for_selector("text=Heartbeats are switched off until")
            assert here.complaints == []


def test_what_was_spent_is_drawn_by_day_and_listed_by_model(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    with MockModelServer([says("cheap")]) as server:
        openclaw_home.configure(server.settings(cost={"input": 3000, "output": 15000}))
        with site(openclaw_home, browser) as here:
            page = here.open()
            page.click("nav a[href$='/usage']")
            page.wait_for_selector("text=Nothing was spent in this time")
            page.click("nav a[href*='/chat']")
            say(page, "spend")
            page.wait_for_selector("text=cheap")
            wait_idle(page)
            database = sqlite3.connect(openclaw_home.state / "state" / "openclaw-py.sqlite")
            database.execute("UPDATE model_calls SET at = at - 5 * 86400000")
            database.commit()
            database.close()
            page.click("nav a[href$='/usage']")
            page.wait_for_selector(".chart")
            # 100 tokens in at $3, 10 out at $15 a thousand.
            assert page.inner_text(".figures b") == "$0.4500"
            tall = "all => all.filter(each => each.height.baseVal.value > 1).length"
            assert page.eval_on_selector_all(".chart rect.part-input", tall) == 1
            assert page.eval_on_selector_all(".chart .day", "all => all.length") == 30
            assert "mock/mock" in page.inner_text("oc-usage table >> nth=0")
            page.select_option("[aria-label='What is counted']", "tokens")
            page.wait_for_selector(".chart text >> text=110")
            page.select_option("[aria-label=Time]", "7d")
            page.wait_for_function("() => document.querySelectorAll('.chart .day').length === 7")
            page.click("oc-usage table a")
            page.wait_for_selector("article.assistant >> text=cheap")
            assert here.complaints == []


def test_a_setting_is_found_by_what_its_explanation_says(openclaw_home: TemporaryHome, browser: SharedBrowser) -> None:
    with site(openclaw_home, browser) as here:
        page = here.open()
        page.click("nav a[href$='/config']")
        page.fill("[aria-label='Search the settings']", "heartbeat")
        page.wait_for_selector("[id='agents.defaults.heartbeat.every']")
        assert page.locator("[id='logging.level']").count() == 0
        page.fill("[id='agents.defaults.heartbeat.every']", "45m")
        page.press("[id='agents.defaults.heartbeat.every']", "Tab")
        page.click("oc-config >> text=Save 1")
        page.wait_for_selector("text=Saved.")
        assert json.loads(openclaw_home.config_path.read_text())["agents"]["defaults"]["heartbeat"]["every"] == "45m"


def test_what_changed_in_the_prompt_is_shown_line_by_line(openclaw_home: TemporaryHome, browser: SharedBrowser) -> None:
    with MockModelServer([says("aye")]) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here:
            page = here.open()
            soul = openclaw_home.workspace / "SOUL.md"
            for text in ("Speak plainly.\n", "Speak like a pirate.\n"):
                soul.write_text(text)
                say(page, text)
                page.wait_for_selector(f"article.user >> text={text.strip()}")
                page.wait_for_selector("article.assistant")
                wait_idle(page)
            page.click("nav a[href*='/prompt/']")
            page.click(".changes summary:has-text('SOUL.md')")
            page.wait_for_selector(".changes .added >> text=Speak like a pirate.")
            assert "Speak plainly." in page.inner_text(".changes .removed")
            assert here.complaints == []


def test_what_carries_out_the_turns_is_shown(openclaw_home: TemporaryHome, browser: SharedBrowser) -> None:
    with MockModelServer([says("hello")]) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here:
            page = here.open()
            say(page, "hi")
            page.wait_for_selector("text=hello")
            wait_idle(page)
            assert "Codex" not in page.inner_text("oc-chat header")
            say(page, "/runtime codex")
            page.wait_for_function("() => document.querySelector('oc-chat header')?.innerText.includes('mock · Codex')")
            say(page, "/context")
            page.wait_for_selector("text=Runtime: OpenAI Codex (chosen for the session)")
            page.click("nav a[href$='/sessions']")
            page.wait_for_selector("td.model >> text=mock · Codex")
            assert here.complaints == []
