"""The security audit on its page: dangers with their reasons, mended after the plan was read."""

import json

import pytest

from openclaw.testing import TemporaryHome, says
from openclaw.testing.server import MockModelServer
from tests.web.support import SharedBrowser, site

pytestmark = pytest.mark.system


def test_dangers_are_shown_with_their_reason_and_mended(openclaw_home: TemporaryHome, browser: SharedBrowser) -> None:
    with MockModelServer([says("hi")]) as server:
        openclaw_home.configure({**server.settings(), "commands": {"ownerDisplay": "raw"}})
        with site(openclaw_home, browser) as here:
            page = here.open()
            page.goto(f"{here.address}/security")
            raw = page.locator("[data-check='owner.display_raw']")
            raw.locator("summary").click()
            assert "goes to the model's provider" in raw.inner_text()
            raw.locator("text=Repair…").click()
            assert "unset commands.ownerDisplay" in page.inner_text("dialog")
            page.click("dialog .primary")
            page.wait_for_selector("[data-check='owner.display_raw']", state="detached")
            assert "commands" not in json.loads(openclaw_home.config_path.read_text()) or not json.loads(
                openclaw_home.config_path.read_text()
            )["commands"].get("ownerDisplay")
            assert here.complaints == []
