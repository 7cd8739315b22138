"""Lines of the chat page that a person reads while something waits or fails."""

from openclaw.testing import TemporaryHome, calls, says
from openclaw.testing.server import Answers, MockModelServer
from tests.cli.tui.test_screen import chat
from tests.e2e.gateway_process import GatewayProcess
from tests.web.support import SharedBrowser, say, site, wait_idle


def test_a_retry_is_announced_and_an_error_of_the_composer_can_be_closed(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    busy = Answers(429, '{"error": {"message": "slow down"}}', retry_after="3")
    with MockModelServer([busy, says("Here I am.")]) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here:
            page = here.open()
            say(page, "hello")
            page.get_by_text("(attempt 2)").wait_for()
            page.get_by_text("Here I am.").wait_for()
            wait_idle(page)
            large = {"name": "film.bin", "mimeType": "application/octet-stream", "buffer": b"x" * 40_000_000}
            page.set_input_files("oc-composer input[type=file]", large)
            page.wait_for_selector("oc-composer .problem")
            page.click("oc-composer .problem button")
            page.wait_for_selector("oc-composer .problem", state="detached")


def test_what_a_command_answered_stays_where_it_was_said_and_pages_keep_a_margin(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    with MockModelServer([says("Here I am.")]) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here:
            page = here.open()
            page.set_viewport_size({"width": 390, "height": 844})
            for words, answer in (("hello", "Here I am."), ("/status", "Model: mock/mock"), ("and now?", "Here I am.")):
                before = page.locator("article", has_text=answer).count()
                say(page, words)
                page.locator("article", has_text=answer).nth(before).wait_for()
                wait_idle(page)
            said = page.locator("oc-chat .column article").all_text_contents()
            places = [next(n for n, text in enumerate(said) if words in text) for words in ("/status", "and now?")]
            assert places == sorted(places), said
            page.goto(f"{here.address}/security")
            card = page.locator("oc-audit .finding").first
            card.wait_for()
            box = card.bounding_box()
            assert box["x"] >= 8 and box["x"] + box["width"] <= 390 - 8, box
            page.goto(f"{here.address}/channels")
            page.get_by_role("button", name="Connect Webhook").click()
            page.wait_for_selector("oc-channels form >> text=Connect Webhook")
            form = page.locator("oc-channels form input").first
            assert page.locator("oc-channels .bar").bounding_box()["height"] < 100, "one line, not a page of buttons"
            form.scroll_into_view_if_needed()


def test_what_surrounds_text_from_elsewhere_is_for_the_model_only(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    mail = openclaw_home.workspace / "inbox" / "mail.txt"
    mail.parent.mkdir()
    mail.write_text("Lunch at one?\n" * 30)
    with MockModelServer([calls("read", path="inbox/mail.txt"), says("An invitation.")]) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here:
            page = here.open()
            say(page, "what is in the inbox?")
            page.get_by_text("An invitation.").wait_for()
            wait_idle(page)
            assert "SECURITY NOTICE" in str(server.requests[-1]["messages"][-1]), "the model is told"
            page.click("oc-tool summary")
            shown = page.locator("oc-tool .output")
            shown.wait_for()
            assert "Lunch at one?" in shown.inner_text()
            assert "SECURITY" not in shown.inner_text() and "<<<" not in shown.inner_text()
        with GatewayProcess(openclaw_home), chat(openclaw_home) as terminal:
            terminal.until("An invitation.")
            terminal.presses("C-t")
            seen = terminal.until("Lunch at one?")
            assert "SECURITY" not in seen and "<<<" not in seen


def test_a_question_elsewhere_is_called_by_the_name_of_its_conversation(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    with MockModelServer([calls("exec", command="shuf -e Linux"), says("Done.")]) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here:
            page = here.open()
            page.goto(f"{here.address}/chat/boat-plans")
            page.wait_for_selector("oc-chat .talk")
            say(page, "paint the boat")
            page.wait_for_selector("[data-decision=deny]")
            page.goto(f"{here.address}/chat/main")
            line = page.locator("p.hint", has_text="Other conversations wait for your word")
            line.get_by_text("paint the boat").wait_for()
            assert "agent:main:" not in (line.text_content() or "")
