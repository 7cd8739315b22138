"""What a person does in the chat beyond asking: going back, searching, watching work, adding to it, losing the line."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from openclaw.testing import Says, Step, TemporaryHome, calls, says
from openclaw.testing.server import Hangs, MockModelServer, Reply
from tests.web.support import SharedBrowser, Site, long_conversation, said, say, site, wait_idle

pytestmark = pytest.mark.system


def test_a_message_is_changed_and_sent_again_and_what_followed_is_gone_in_every_tab(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    with MockModelServer([says("Paris is large"), says("it rains"), says("Rome is old")]) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here:
            page = here.open()
            other = page.context.new_page()
            other.goto(f"{here.address}/chat/main")
            other.wait_for_selector("oc-chat .talk")
            for text, answer in (("about Paris", "Paris is large"), ("and the weather", "it rains")):
                say(page, text)
                page.wait_for_selector(f"article.assistant >> text={answer}")
                wait_idle(page)
            page.bring_to_front()  # a page in the background draws slowly
            first = page.locator("article.user").first
            first.hover()
            first.locator("text=Edit and send again").click()
            assert page.input_value("oc-composer textarea") == "about Paris"
            page.wait_for_selector("text=takes back your message and everything after it")
            page.press("oc-composer textarea", "Escape")
            page.wait_for_selector(".editing", state="detached")
            assert said(page, "user") == ["about Paris", "and the weather"]
            first.hover()
            first.locator("text=Edit and send again").click()
            say(page, "about Rome")
            for each in (page, other):
                each.wait_for_selector("article.assistant >> text=Rome is old")
                wait_idle(each)
                each.wait_for_function("() => document.querySelectorAll('article.user').length === 1")
                assert said(each, "user") == ["about Rome"]
                assert said(each, "assistant") == ["Rome is old"]
            assert "Paris" not in json.dumps(server.requests[-1]["messages"])
            assert here.complaints == []


def test_words_are_found_far_back_and_the_page_goes_there(openclaw_home: TemporaryHome, browser: SharedBrowser) -> None:
    with MockModelServer([says("an answer")]) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here:
            page = here.open()
            say(page, "question 0")
            page.wait_for_selector("text=an answer")
            wait_idle(page)
            here.gateway.stop()
            long_conversation(openclaw_home.transcripts()[0], 3_000)
            here.gateway.start()
            here.enter(page)
            page.wait_for_selector("text=question 2998")
            page.keyboard.press("Control+/")
            page.fill(".find input", "question 402")
            page.wait_for_selector(".hits button >> text=question 402")
            page.press(".find input", "Enter")
            found = page.wait_for_selector("article.found >> text=question 402")
            assert found.is_visible()
            assert page.locator("article").count() <= 200
            page.click("text=To the newest message")
            page.wait_for_selector("text=question 2998")
            page.keyboard.press("Control+/")
            page.fill(".find input", "nobody said this")
            page.wait_for_selector("text=Nothing here says that")
            page.keyboard.press("Escape")
            page.wait_for_selector(".find", state="detached")
            assert here.complaints == []


def test_a_plan_is_watched_and_a_command_speaks_while_it_runs(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    steps = [{"step": "boil <b>water</b>", "status": "completed"}, {"step": "add tea", "status": "in_progress"}]
    done = [{**step, "status": "completed"} for step in steps]
    # The command ends only when the test has seen what it said before.
    command = "echo the kettle sings; while [ ! -e off ]; do sleep 0.05; done; echo over"
    script: list[Reply | Sequence[Step]] = [
        [calls("update_plan", plan=steps), calls("exec", command=command)],
        [says("now the tea"), calls("update_plan", plan=done)],
        says("tea is ready"),
    ]
    with MockModelServer(script) as server:
        allowed = {"experimental": {"planTool": True}, "exec": {"security": "full", "ask": "off"}}
        openclaw_home.configure({**server.settings(), "tools": allowed})
        with site(openclaw_home, browser) as here:
            page = here.open()
            say(page, "make tea")
            page.wait_for_selector(".tool.running .output >> text=the kettle sings")
            assert "over" not in page.inner_text(".tool.running .output")
            page.wait_for_selector(".plan >> text=1 of 2 done")
            assert "boil <b>water</b>" in page.inner_text(".plan")
            again = page.context.new_page()
            again.goto(f"{here.address}/chat/main")
            again.wait_for_selector(".plan >> text=1 of 2 done")
            page.bring_to_front()
            page.click(".plan button")
            page.click(".plan button")
            (openclaw_home.workspace / "off").touch()
            page.wait_for_selector("text=tea is ready")
            wait_idle(page)
            page.wait_for_selector(".plan", state="detached")
            page.locator("oc-tool:has-text('exec') summary").first.click()
            assert "over" in page.inner_text("oc-tool:has-text('exec') .output")
            assert here.complaints == []


def test_what_waits_is_seen_in_every_tab_and_can_be_taken_back(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    with MockModelServer([Hangs("thinking about it")]) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here:
            page = here.open()
            say(page, "first")
            page.wait_for_selector("text=thinking about it")
            other = page.context.new_page()
            other.goto(f"{here.address}/chat/main")
            other.wait_for_selector("text=thinking about it")
            say(page, "and this too")
            for each in (page, other):
                each.wait_for_selector("article.waiting >> text=and this too")
                each.wait_for_selector("text=1 message waiting")
            other.reload()
            other.wait_for_selector("article.waiting >> text=and this too")
            page.bring_to_front()
            page.click(".stop")
            other.wait_for_selector("article.waiting", state="detached")
            page.wait_for_selector("text=stopped before it was read")
            page.click("text=Write again")
            assert page.input_value("oc-composer textarea") == "and this too"


def test_a_gateway_that_is_killed_in_the_middle_of_an_answer_gives_it_once(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    with MockModelServer([Hangs("half of the ans"), says("the whole answer")]) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here:
            page = here.open()
            say(page, "tell me")
            page.wait_for_selector("article.live >> text=half of the ans")
            port = here.gateway.port
            here.gateway.kill()
            page.wait_for_selector("text=Trying again")
            here.gateway.start(port)
            page.wait_for_selector("article.assistant >> text=the whole answer")
            wait_idle(page)
            assert said(page, "user") == ["tell me"]
            assert said(page, "assistant")[-1:] == ["the whole answer"]
            assert page.locator("text=the whole answer").count() == 1
            page.reload()
            page.wait_for_selector("article.assistant >> text=the whole answer")
            assert said(page, "user") == ["tell me"]


def test_a_slow_line_loses_nothing_and_doubles_nothing(openclaw_home: TemporaryHome, browser: SharedBrowser) -> None:
    long = " ".join(f"word{number}" for number in range(400))
    with MockModelServer([Says(long, piece=40), says("second")]) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here:
            page = here.open()
            line = page.context.new_cdp_session(page)
            line.send("Network.enable")
            slow = {"offline": False, "latency": 300, "downloadThroughput": 50_000, "uploadThroughput": 20_000}
            line.send("Network.emulateNetworkConditions", slow)
            page.reload()
            page.wait_for_selector("oc-chat .talk")
            page.wait_for_selector(".connection", state="detached")
            say(page, "speak at length")
            page.wait_for_selector("article.assistant >> text=word399")
            # The line breaks while a message is on its way; the page sends it again under the same key.
            line.send("Network.emulateNetworkConditions", {**slow, "offline": True})
            say(page, "and then?")
            line.send("Network.emulateNetworkConditions", slow)
            page.wait_for_selector("article.assistant >> text=second")
            wait_idle(page)
            assert said(page, "user") == ["speak at length", "and then?"]
            assert said(page, "assistant") == [long, "second"]
            assert len(server.requests) == 2
            line.detach()


def test_a_subagent_stands_below_who_started_it_and_its_card_leads_to_it(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    class Two(MockModelServer):
        def _next(self, request: dict[str, Any]) -> tuple[Any, ...]:
            super()._next(request)
            text = json.dumps(request["messages"])
            if "count the sheep" in str(request["messages"][-1]):
                return (says("there are nine sheep"),)
            return (says("noted"),) if "toolCallId" in text or "tool_call_id" in text else (spawn,)

    spawn = calls("sessions_spawn", task="count the sheep", label="Sheep")
    with Two([says("unused")]) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here:
            page = here.open()
            say(page, "how many?")
            page.wait_for_selector("text=noted")
            page.click("oc-tool summary")
            page.click("text=Open the sub-agent's conversation")
            page.wait_for_selector("text=there are nine sheep")
            page.click("nav a[href$='/sessions']")
            page.wait_for_selector("tr[data-key*=':subagent:'] td.depth-1 >> text=Sheep")
            assert page.locator("td.depth-0").count() == 1


def test_what_was_written_is_still_there_after_a_look_elsewhere(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    with site(openclaw_home, browser) as here:
        page = here.open()
        page.fill("oc-composer textarea", "half a thought")
        page.click("nav a[href$='/logs']")
        page.click("nav a[href*='/chat']")
        page.wait_for_selector("oc-composer textarea")
        page.wait_for_function("() => document.querySelector('oc-composer textarea')?.value === 'half a thought'")
        go_anywhere(page, here)


def go_anywhere(page: Any, here: Site) -> None:
    """The keyboard reaches every page; the list of keys says how."""
    page.keyboard.press("Control+k")
    page.wait_for_selector("dialog.palette")
    page.keyboard.type("usag")
    page.keyboard.press("Enter")
    page.wait_for_url("**/usage")
    page.keyboard.press("?")
    page.wait_for_selector("dialog.keys >> text=go anywhere")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog.keys", state="detached")
    page.keyboard.press("Alt+5")
    page.wait_for_url("**/memory")
    page.keyboard.press("Alt+0")
    page.wait_for_url("**/config")
    page.keyboard.press("Alt+n")
    page.wait_for_url("**/chat/agent*")
    assert here.complaints == []
