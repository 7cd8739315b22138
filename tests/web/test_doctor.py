"""What the doctor finds, on the page: said plainly, repaired only after its plan was read."""

import stat

import pytest

from openclaw.testing import TemporaryHome, says
from openclaw.testing.server import MockModelServer
from tests.web.support import SharedBrowser, site

pytestmark = pytest.mark.system


def test_findings_are_shown_and_repaired_after_a_look_at_the_plan(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    def mode() -> int:
        return stat.S_IMODE(openclaw_home.config_path.stat().st_mode)

    with MockModelServer([says("hi")]) as server:
        openclaw_home.configure({**server.settings(), "tools": {"exec": {"security": "full", "ask": "off"}}})
        openclaw_home.config_path.chmod(0o644)
        with site(openclaw_home, browser) as here:
            page = here.open()
            page.goto(f"{here.address}/system")
            loose = page.locator("[data-check='fs.permissions']")
            loose.locator("text=Repair…").click()
            assert "take all rights of others away" in page.inner_text("dialog")
            page.click("dialog >> text=Cancel")
            assert mode() == 0o644
            loose.locator("summary").click()
            assert str(openclaw_home.config_path) in loose.inner_text()
            loose.locator("text=Repair…").click()
            page.click("dialog .primary")
            page.wait_for_selector("text=Done: take all rights of others away")
            page.wait_for_selector("[data-check='fs.permissions']", state="detached")
            assert mode() == 0o600
            command = page.locator("[data-check='tools.exec.security_full_configured']")
            assert "openclaw config unset tools.exec.security" in command.locator("code").inner_text()
            assert command.locator("text=Repair…").count() == 0
            assert here.complaints == []
