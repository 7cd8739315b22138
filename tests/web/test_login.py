"""Signing in at a provider from the page Models."""

from openclaw.testing import TemporaryHome
from tests.models.authorisation_server import KEY, AuthorisationServer
from tests.web.support import SharedBrowser, site


def test_signing_in_on_the_page_comes_back_with_a_model(openclaw_home: TemporaryHome, browser: SharedBrowser) -> None:
    with AuthorisationServer() as server:
        openclaw_home.configure(server.settings)
        with site(openclaw_home, browser) as here:
            page = here.open()
            page.goto(f"{here.address}/models")
            page.get_by_role("button", name="OpenRouter").click()
            page.get_by_role("button", name="Sign in at OpenRouter").click()
            page.get_by_role("link", name="Authorize").click()
            page.get_by_text("openrouter/openrouter/auto answers: “ready”").wait_for()
            assert page.url == f"{here.address}/models"
            assert KEY not in page.content()
            # The address a browser ended at works once, and one that was made up not at all.
            page.goto(f"{here.address}/models/made-up?code=of-somebody-else")
            page.get_by_text("this sign-in is over").wait_for()
            assert len(server.exchanged) == 1 and page.url == f"{here.address}/models"


def test_who_does_not_agree_is_told_on_the_page(openclaw_home: TemporaryHome, browser: SharedBrowser) -> None:
    with AuthorisationServer(denies=True) as server:
        openclaw_home.configure(server.settings)
        with site(openclaw_home, browser) as here:
            page = here.open()
            page.goto(f"{here.address}/models")
            page.get_by_role("button", name="OpenRouter").click()
            page.get_by_role("button", name="Sign in at OpenRouter").click()
            page.get_by_role("link", name="Authorize").click()
            page.get_by_text("OpenRouter says: You did not agree").wait_for()
            page.get_by_text("No model yet").wait_for()
