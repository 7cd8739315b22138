"""The chat page in a real browser, against a real gateway."""

import base64
import json

import pytest

from openclaw.testing import TemporaryHome, calls, says
from openclaw.testing.server import Hangs, MockModelServer
from tests.web.support import SharedBrowser, long_conversation, said, say, site, wait_idle

pytestmark = pytest.mark.system

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def test_the_token_stays_nowhere_a_link_works_once_and_the_browser_is_remembered(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    with MockModelServer([says("hi")]) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here:
            link = here.link()
            context = here.visitor()
            page = context.new_page()
            page.goto(link)
            page.wait_for_selector("oc-chat .talk")
            token = here.gateway.token.reveal()
            assert page.url == f"{here.address}/chat/main"
            kept = page.evaluate("JSON.stringify({...localStorage, ...sessionStorage})")
            assert token not in kept
            assert all(token not in url and "code=" not in url for url in here.requests)
            page.go_back()
            assert page.url == "about:blank", "the address with the code is no step in the history"
            again = context.new_page()
            again.goto(here.address)
            again.wait_for_selector("oc-chat .talk")
            stranger = here.visitor().new_page()
            stranger.goto(link)
            stranger.wait_for_selector(".gate .problem")
            assert "used already" in stranger.inner_text(".gate")
            assert stranger.url == f"{here.address}/chat/main"
            stranger.fill("input[name=token]", token)
            stranger.click("text=Connect")
            stranger.wait_for_selector("oc-chat .talk")


def test_an_answer_is_shown_as_markdown_with_code_to_copy_and_a_card_for_the_tool(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    (openclaw_home.workspace / "note.txt").write_text("remember the milk\n")
    answer = "It says **milk**.\n\n```python\nprint('milk')\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    with MockModelServer([calls("read", path="note.txt"), says(answer)]) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here:
            page = here.open()
            page.context.grant_permissions(["clipboard-read", "clipboard-write"])
            say(page, "what does the note say?")
            page.wait_for_selector("figure.code")
            wait_idle(page)
            assert page.inner_text(".md strong") == "milk"
            assert page.locator(".md td").all_inner_texts() == ["1", "2"]
            page.click("figure.code button")
            page.wait_for_selector("figure.code >> text=Copied")
            assert page.evaluate("navigator.clipboard.readText()") == "print('milk')\n"
            page.click("oc-tool summary")
            assert "remember the milk" in page.inner_text("oc-tool .output")
            page.reload()
            page.wait_for_selector("figure.code")
            assert said(page, "user") == ["what does the note say?"]
            assert page.locator("oc-tool").count() == 1
            page.set_viewport_size({"width": 800, "height": 420})
            page.click("nav a[href$='/logs']")
            page.click("nav a[href*='/chat/']")
            page.wait_for_selector(".md td")
            left = "() => { const {scrollHeight, scrollTop, clientHeight} = document.querySelector('.talk');"
            page.wait_for_function(f"{left} return scrollTop > 0 && scrollHeight - scrollTop - clientHeight < 2 }}")
            assert here.complaints == []


def test_a_command_waits_for_a_click_and_shows_what_is_hidden_in_it(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    command = "touch made\u202e && echo done"
    with MockModelServer([calls("exec", command=command), says("ran")]) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here:
            page = here.open()
            say(page, "make it")
            page.wait_for_selector(".approval")
            assert page.inner_text(".approval pre") == "touch made⟨U+202E⟩ && echo done"
            assert not list(openclaw_home.workspace.glob("made*"))
            page.keyboard.press("Alt+n")
            page.wait_for_url("**/chat/agent*")
            page.click(".hint:has-text('wait for your word') a")
            page.click("[data-decision=allow-once]")
            page.wait_for_selector("text=ran")
            assert list(openclaw_home.workspace.glob("made*"))
            assert page.locator(".approval").count() == 0


@pytest.mark.parametrize(
    ("command", "offered"),
    [
        ("install /dev/null made", ["deny", "allow-once", "allow-always"]),
        ("python3 -c 'print(1)'", ["deny", "allow-once"]),
    ],
)
def test_always_is_offered_where_it_means_something(
    openclaw_home: TemporaryHome, browser: SharedBrowser, command: str, offered: list[str]
) -> None:
    with MockModelServer([calls("exec", command=command), says("well")]) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here:
            page = here.open()
            say(page, "do it")
            page.wait_for_selector(".approval")
            buttons = page.locator(".approval [data-decision]").all()
            assert [button.get_attribute("data-decision") for button in buttons] == offered
            page.click("[data-decision=deny]")
            page.wait_for_selector("text=well")


def test_an_edit_is_shown_as_a_difference(openclaw_home: TemporaryHome, browser: SharedBrowser) -> None:
    (openclaw_home.workspace / "note.txt").write_text("buy milk\n")
    edit = calls("edit", path="note.txt", edits=[{"oldText": "buy milk", "newText": "buy bread"}])
    with MockModelServer([edit, says("changed")]) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here:
            page = here.open()
            say(page, "bread instead")
            page.wait_for_selector("text=changed")
            assert page.inner_text(".diff .removed").strip() == "-buy milk"
            assert page.inner_text(".diff .added").strip() == "+buy bread"


def test_stop_stops_and_what_was_said_until_then_stays(openclaw_home: TemporaryHome, browser: SharedBrowser) -> None:
    with MockModelServer([Hangs("half an ans"), says("after that")]) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here:
            page = here.open()
            say(page, "tell me")
            page.wait_for_selector("text=half an ans")
            say(page, "and this waits")
            page.wait_for_selector("text=1 message waiting")
            page.click(".stop")
            page.wait_for_selector(".stop", state="detached")
            page.wait_for_selector("text=stopped before it was read")
            page.wait_for_selector("article.assistant >> text=half an ans")
            say(page, "go on")
            page.wait_for_selector("text=after that")


def test_images_and_files_go_with_a_message_and_are_still_there_later(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    bill = {"name": "bill.pdf", "mimeType": "application/pdf", "buffer": b"%PDF-1.7"}
    with MockModelServer([says("a pixel and a bill"), says("both again")]) as server:
        openclaw_home.configure(server.settings(input=["text", "image"]))
        with site(openclaw_home, browser) as here:
            page = here.open()
            page.set_input_files(".attach input", [{"name": "a.png", "mimeType": "image/png", "buffer": PIXEL}, bill])
            page.wait_for_selector(".images img")
            page.wait_for_selector(".images .chip >> text=bill.pdf")
            say(page, "what is it?")
            page.wait_for_selector("text=a pixel and a bill")
            wait_idle(page)
            assert base64.b64encode(PIXEL).decode() in json.dumps(server.requests[-1])
            (kept,) = openclaw_home.workspace.rglob("bill.pdf")
            assert kept.read_bytes() == b"%PDF-1.7"
            assert str(kept.relative_to(openclaw_home.workspace)) in json.dumps(server.requests[-1])
            page.reload()
            page.wait_for_selector("article.user oc-image img")
            assert page.locator("article.user .chip").inner_text().endswith("bill.pdf")
            assert page.inner_text("article.user p") == "what is it?"
            size = "document.querySelector('oc-image img').naturalWidth"
            page.wait_for_function(f"() => {size} === 1")
            page.hover("article.user")
            page.click("text=Edit and send again")
            say(page, "what is it really?")
            page.wait_for_selector("article.assistant >> text=both again")
            page.wait_for_selector("article.user oc-image img")
            wait_idle(page)
            assert said(page, "assistant") == ["both again"]
            asked = json.dumps(server.requests[-1]["messages"])
            assert "what is it?" not in asked and base64.b64encode(PIXEL).decode() in asked
            assert str(kept.relative_to(openclaw_home.workspace)) in asked
            page.set_input_files(".attach input", {"name": "none.txt", "mimeType": "text/plain", "buffer": b""})
            page.wait_for_selector("text=none.txt is empty")
            assert here.complaints == []


def test_two_tabs_show_the_same_and_a_restart_neither_loses_nor_doubles(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    with MockModelServer([says("first"), says("second")]) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here:
            one = here.open()
            two = one.context.new_page()
            two.goto(f"{here.address}/chat/main")
            two.wait_for_selector("oc-chat .talk")
            say(one, "hello")
            for page in (one, two):
                page.wait_for_selector("article.assistant >> text=first")
                wait_idle(page)  # words are seen before their run has ended; one that is killed is asked again
            port = here.gateway.port
            here.gateway.kill()
            one.wait_for_selector("text=Trying again")
            say(one, "while you were away")
            one.wait_for_selector("text=waits for the connection")
            here.gateway.start(port)
            for page in (one, two):
                page.wait_for_selector("article.assistant >> text=second")
                wait_idle(page)
                assert said(page, "user") == ["hello", "while you were away"]
                assert said(page, "assistant") == ["first", "second"]


def test_thousands_of_messages_scroll_without_filling_the_page(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
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
            nodes = []
            for _ in range(6):
                before = page.locator("article").first.get_attribute("data-id")
                page.evaluate("document.querySelector('.talk').scrollTop = 0")
                # A browser that is at the top already sends no event.
                page.evaluate("document.querySelector('.talk').dispatchEvent(new Event('scroll'))")
                page.wait_for_function(
                    "id => document.querySelector('article').dataset.id !== id", arg=before, polling=50
                )
                nodes.append(page.evaluate("document.querySelectorAll('*').length"))
                assert page.locator("article").count() <= 200
            assert max(nodes[3:]) <= nodes[2] * 1.05, nodes
            for _ in range(2):
                last = page.locator("article[data-id]").last.get_attribute("data-id")
                page.evaluate("(each => each.scrollTop = each.scrollHeight)(document.querySelector('.talk'))")
                page.wait_for_function(
                    "id => [...document.querySelectorAll('article[data-id]')].at(-1).dataset.id !== id",
                    arg=last,
                    polling=50,
                )
                assert page.evaluate("document.querySelectorAll('*').length") <= nodes[2] * 1.05
            page.click("text=To the newest message")
            page.wait_for_selector("text=question 2998")


def test_what_the_gateway_answers_itself_is_shown(openclaw_home: TemporaryHome, browser: SharedBrowser) -> None:
    with site(openclaw_home, browser) as here:
        page = here.open()
        say(page, "/status")
        page.wait_for_selector(".said >> text=Session: agent:main:main")
        assert page.locator(".commands").count() == 0
        page.fill("oc-composer textarea", "/sta")
        page.wait_for_selector(".commands >> text=/status")
        page.press("oc-composer textarea", "Tab")
        assert page.input_value("oc-composer textarea") == "/status "
