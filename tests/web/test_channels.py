"""The Channels page, in a real browser, with a Telegram server beside it."""

import json
from typing import Any

import pytest

from openclaw.testing import TemporaryHome, says
from openclaw.testing.server import MockModelServer
from tests.channels.telegram.server import TOKEN, Fault, TelegramServer
from tests.commandline import typed
from tests.web.support import SharedBrowser, site

pytestmark = pytest.mark.system


def press(where: Any, label: str) -> None:
    where.get_by_role("button", name=label, exact=True).click()


def test_a_bot_is_connected_its_owner_let_in_a_held_message_sent_and_it_is_disconnected(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    with MockModelServer([says("Good day.")]) as model, TelegramServer() as telegram:
        channels = {"telegram": {"apiRoot": telegram.url}}
        openclaw_home.configure({**model.settings(), "channels": channels, "delivery": {"unsure": "hold"}})
        with site(openclaw_home, browser) as here:
            page = here.open()
            page.click("nav a[href$='/channels']")
            account = page.locator("[data-account='telegram:default']")
            account.locator("text=not configured").wait_for()

            # A wrong token is said at once, and nothing is kept.
            press(account, "Connect")
            page.wait_for_selector("oc-channels form >> text=@BotFather")
            page.fill("input[name=botToken]", "42:wrong")
            page.click("oc-channels form .primary")
            page.wait_for_selector("oc-channels .problem >> text=not valid")
            assert "botToken" not in openclaw_home.config_path.read_text()
            page.fill("input[name=botToken]", TOKEN)
            page.click("oc-channels form .primary")
            page.wait_for_selector("oc-channels .good >> text=this is @claw_bot")
            account.locator(".badge >> text=connected").wait_for()
            assert TOKEN not in page.content()

            # Two people ask; one is the owner, the other is sent away.
            telegram.says("hello", sender=7)
            telegram.says("hello too", sender=8)
            press(page.locator("[data-request='8']"), "Decline")
            page.wait_for_selector("[data-request='8']", state="detached")
            press(page.locator("[data-request='7']"), "This is me")
            page.wait_for_selector("oc-channels .good >> text=Person 7 is heard from now on")
            telegram.until(lambda: any("let in" in each["text"] for each in telegram.sent))
            assert json.loads(openclaw_home.config_path.read_text())["commands"]["ownerAllowFrom"] == ["telegram:7"]
            telegram.says("hello again", sender=7)
            telegram.until(lambda: telegram.sent[-1]["text"] == "Good day.")

            # What may or may not have arrived is sent or dropped.
            run = typed(openclaw_home)
            for text in ("first note", "second note"):
                telegram.faults = [Fault("sendMessage", cut="before")]
                assert "held" in run("message", "send", "-t", "telegram:7", "-m", text).out
            press(page.locator("[data-held]:has-text('first note')"), "Send")
            telegram.until(lambda: telegram.sent[-1]["text"] == "first note")
            press(page.locator("[data-held]:has-text('second note')"), "Drop")
            page.click("dialog .primary")
            page.wait_for_selector("[data-held]", state="detached")
            assert telegram.sent[-1]["text"] == "first note"

            press(account, "Check")
            account.locator("text=this is @claw_bot").wait_for()
            press(account, "Stop")
            account.locator(".badge >> text=stopped").wait_for()
            press(account, "Start")
            account.locator(".badge >> text=connected").wait_for()
            press(account, "Disconnect")
            page.click("dialog .primary")
            account.locator("text=not configured").wait_for()
            assert "botToken" not in json.loads(openclaw_home.config_path.read_text())["channels"]["telegram"]
            press(account, "Remove")
            page.click("dialog .primary")
            page.wait_for_selector("text=Nobody can write to the assistant yet")
            assert here.complaints == []
