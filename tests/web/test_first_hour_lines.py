"""Lines of the chat page that a person reads while something waits or fails."""

from openclaw.testing import TemporaryHome, calls, says
from openclaw.testing.server import Answers, MockModelServer
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
