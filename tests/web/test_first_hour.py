"""What a person meets in the first hour on the page: whole answers, a view that follows, one error, every control."""

import json
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from openclaw.testing import TemporaryHome, calls, says
from openclaw.testing.server import Answers, MockModelServer
from tests.commandline import openclaw
from tests.web.support import SharedBrowser, Site, said, say, site, wait_idle

LONG = "word " * 2400
DROP = """() => {
  const data = new DataTransfer();
  data.items.add(new File(["hi"], "note.txt", { type: "text/plain" }));
  return ["dragenter", "dragover", "drop"].map((name) => {
    const event = new DragEvent(name, { dataTransfer: data, bubbles: true, cancelable: true });
    document.querySelector("nav").dispatchEvent(event);
    return event.defaultPrevented;
  });
}"""
GAP = """() => {
  const talk = document.querySelector(".talk");
  return talk.scrollHeight - talk.scrollTop - talk.clientHeight;
}"""
OFF_SCREEN = """() => {
  const edge = document.querySelector("main").getBoundingClientRect().right + 1;
  const scrolls = (each) => each.closest("oc-config .list");
  return [...document.querySelectorAll("main :is(button, input, select, summary, a)")]
    .filter((each) => !scrolls(each) && each.getBoundingClientRect().width && each.getBoundingClientRect().right > edge)
    .map((each) => each.textContent.trim() || each.name || each.tagName);
}"""


def test_answers_stay_whole_the_view_follows_and_a_failure_is_said_once(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    refused = Answers(401, '{"error": {"message": "bad key"}}')
    told = "It is Linux. " + "more " * 300
    with MockModelServer([says(LONG), calls("exec", command="shuf -e Linux"), says(told), refused]) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here:
            page = here.open()
            say(page, "tell me everything")
            page.wait_for_selector("article.assistant .md")
            wait_idle(page)
            page.reload()
            page.wait_for_selector("article.assistant .md")
            assert said(page, "assistant") == [LONG.strip()]
            say(page, "which system?")
            page.click("[data-decision=allow-once]")
            page.wait_for_selector("article.assistant >> text=It is Linux")
            wait_idle(page)
            page.wait_for_function(f"() => ({GAP})() < 2")
            say(page, "fail")
            page.wait_for_selector(".problem >> text=bad key")
            page.wait_for_selector(".talk >> text=connect another one")
            assert page.locator(".problem").count() == 1
            assert here.complaints == []
        log = "".join(path.read_text() for path in (openclaw_home.state / "logs").glob("openclaw-*.log"))
        assert "mock/mock failed (auth)" in log and "mock-key-123456" not in log


def test_slash_commands_by_keys_files_dropped_anywhere_and_the_picked_model(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    with MockModelServer([says("fine")]) as server:
        settings = server.settings()
        settings["models"]["providers"]["mock"]["models"].append({"id": "small", "contextWindow": 32_000})
        openclaw_home.configure(settings)
        with site(openclaw_home, browser) as here:
            page = here.open()
            area = page.locator("oc-composer textarea")
            area.press_sequentially("/st")
            page.wait_for_selector(".commands [aria-selected=true]")
            first = page.locator(".commands [aria-selected=true] b").text_content()
            area.press("ArrowDown")
            second = page.locator(".commands [aria-selected=true] b").text_content()
            assert first != second
            area.press("Enter")
            assert area.input_value() == f"{second} "
            area.fill("/")
            area.press("Escape")
            area.press("Enter")
            assert page.locator("article").count() == 0, "a lone slash is no message"
            area.fill("")
            say(page, "hello")
            page.wait_for_selector("article.assistant >> text=fine")
            wait_idle(page)
            say(page, "/model mock/small")
            page.wait_for_selector(".bar .hint >> text=32.0k")
            assert "small" in page.text_content(".bar .hint")
            assert page.evaluate(DROP) == [False, True, True]
            page.wait_for_selector(".composer .chip >> text=note.txt")
            assert here.complaints == []


@pytest.mark.parametrize(("width", "height"), [(390, 844), (820, 1180), (1440, 900)])
def test_every_control_is_on_the_screen(
    openclaw_home: TemporaryHome, browser: SharedBrowser, width: int, height: int
) -> None:
    with MockModelServer([says("fine")]) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here:
            page = here.open()
            say(page, "a conversation with a rather long name that goes on and on and then on")
            page.wait_for_selector("article.assistant >> text=fine")
            wait_idle(page)
            page.set_viewport_size({"width": width, "height": height})
            for name in (
                "sessions",
                "usage",
                "models",
                "config",
                "schedule",
                "channels",
                "skills",
                "system",
                "security",
            ):
                open_page(page, here, name)
                assert page.evaluate(OFF_SCREEN) == [], name
            with closing(sqlite3.connect(openclaw_home.state / "state" / "openclaw-py.sqlite")) as db, db:
                db.execute("UPDATE model_calls SET cost_usd = NULL")  # as with a model whose price nobody knows
            open_page(page, here, "usage")
            page.wait_for_selector("oc-usage .figures >> text=unknown")
            assert "$0.0000" not in page.text_content("oc-usage"), "an unknown price is not nothing"
            assert "unknown" in openclaw("cost", env=openclaw_home.environ).stdout
            open_page(page, here, "sessions")
            assert "agent:main" not in page.text_content("oc-sessions"), "names, not keys"
            assert here.complaints == []


def test_a_job_in_words_says_what_it_means_and_its_conversation_has_its_name(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    with MockModelServer([says("The news of today.")]) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here:
            page = here.open()
            page.set_viewport_size({"width": 390, "height": 844})
            open_page(page, here, "schedule")
            page.click("text=New job")
            page.fill("[name=words]", "whenever")
            page.wait_for_selector(".job small >> text=not a time we understand")
            page.fill("[name=words]", "weekdays at 7:30")
            page.wait_for_selector(".job small >> text=Means: every weekday at 07:30")
            assert page.evaluate(OFF_SCREEN) == []
            page.fill("[name=name]", "Morning news")
            page.fill("[name=asked]", "What is new?")
            page.click(".job .primary")
            page.wait_for_selector("td >> text=every weekday at 07:30")
            page.click("[data-job] .actions summary")
            page.click("[data-job] >> text=Run now")
            page.wait_for_selector("[data-job] .good >> text=done")
            open_page(page, here, "sessions")
            page.wait_for_selector("td.name >> text=Morning news")
            assert "cron:" not in page.text_content("oc-sessions")
            assert here.complaints == []


def test_a_key_is_typed_into_the_settings_as_it_is_and_never_shown(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    with MockModelServer([says("fine")]) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here:
            page = here.open()
            open_page(page, here, "config")
            page.click("oc-config .list >> text=models")
            field = page.locator("[id='models.providers.mock.apiKey']")
            assert field.get_attribute("type") == "password" and field.input_value() == ""
            assert "REDACTED" not in page.content()
            field.fill("sk-typed-as-it-is")
            field.blur()
            page.click("oc-config .primary")
            page.wait_for_selector("text=Saved.")
            written = json.loads(openclaw_home.config_path.read_text())
            assert written["models"]["providers"]["mock"]["apiKey"] == "sk-typed-as-it-is"
            assert "REDACTED" not in page.content() and "sk-typed" not in page.content()
            assert here.complaints == []


def open_page(page: Any, here: Site, name: str) -> None:
    page.evaluate(
        f"() => {{ history.pushState(null, '', {json.dumps('/' + name)}); dispatchEvent(new Event('place')); }}"
    )
    page.wait_for_selector("section.page")
    page.wait_for_function("() => !document.querySelector('.page > .empty')?.textContent.startsWith('Loading')")
