"""Honest status beside the answer: at once, and when the page is loaded again."""

import re
from typing import Any

import pytest

from openclaw.testing import TemporaryHome, says
from openclaw.testing.server import Answers, Hangs, MockModelServer
from tests.e2e.test_command_line import run
from tests.web.support import SharedBrowser, say, site, wait_idle

pytestmark = pytest.mark.system

LIMITED = Answers(429, '{"error": {"message": "slow down"}}', retry_after="3600")
RESTARTED = "The gateway was restarted while it worked on this, and has taken it up again."


def two_models(first: MockModelServer, second: MockModelServer) -> dict[str, Any]:
    """The first is asked first, the second when it fails."""
    settings = first.settings()
    settings["models"]["providers"]["spare"] = second.settings()["models"]["providers"]["mock"]
    settings["agents"]["defaults"]["model"] = {"primary": "mock/mock", "fallbacks": ["spare/mock"]}
    return settings


def test_the_page_says_who_answered_instead_also_when_it_is_loaded_again(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    with MockModelServer([LIMITED]) as first, MockModelServer([says("From the spare one.")]) as second:
        openclaw_home.configure(two_models(first, second))
        with site(openclaw_home, browser) as here:
            page = here.open()
            say(page, "hello")
            page.wait_for_selector("article.assistant .notice")
            wait_idle(page)
            told = page.inner_text("article.assistant .notice")
            assert re.fullmatch(r"answered by spare/mock; mock/mock was rate limited at \d\d:\d\d", told)
            page.reload()
            page.wait_for_selector("article.assistant .notice")
            assert page.locator(".notice").all_inner_texts() == [told]
            # The notice is for people: the model never reads it.
            say(page, "and again")
            page.wait_for_selector("article.user:nth-of-type(3)")
            wait_idle(page)
            assert "rate limited" not in str(second.requests[-1])
            assert here.complaints == []


def test_the_page_says_that_a_restart_came_between(openclaw_home: TemporaryHome, browser: SharedBrowser) -> None:
    with MockModelServer([Hangs("half an "), says("A whole answer.")]) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here:
            page = here.open()
            say(page, "hello")
            page.wait_for_selector("article.live >> text=half an")
            port = here.gateway.port
            here.gateway.kill()
            here.gateway.start(port)
            page.wait_for_selector("article.assistant >> text=A whole answer.")
            page.wait_for_selector(f"article.assistant .notice >> text={RESTARTED}")
            page.reload()
            page.wait_for_selector(f"article.assistant .notice >> text={RESTARTED}")
            assert page.locator("article.user").count() == 1


def test_what_the_assistant_says_by_itself_is_seen_on_an_open_page_once(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    with MockModelServer([says("Hello."), says("Somebody is at the door."), says("All sheep are here.")]) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here:
            page = here.open()
            say(page, "hello")
            page.wait_for_selector("article.assistant >> text=Hello.")
            wait_idle(page)
            assert run(openclaw_home, "system", "event", "--text", "the bell rang", "--mode", "now").returncode == 0
            page.wait_for_selector("article.assistant >> text=Somebody is at the door.")
            job = ("--every", "1d", "-m", "count the sheep", "--name", "sheep")
            assert run(openclaw_home, "cron", "add", *job).returncode == 0
            assert run(openclaw_home, "cron", "run", "sheep").returncode == 0
            page.wait_for_selector("article.assistant >> text=All sheep are here.")
            wait_idle(page)
            for text in ("Hello.", "Somebody is at the door.", "All sheep are here."):
                assert page.locator("article.assistant", has_text=text).count() == 1, text
            page.reload()
            page.wait_for_selector("article.assistant >> text=All sheep are here.")
            assert page.locator("article.assistant", has_text="Somebody is at the door.").count() == 1
            assert here.complaints == []
