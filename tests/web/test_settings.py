"""Settings that are lists of named things: added, filled in and removed without writing JSON."""

import json
from typing import Any

import pytest

from openclaw.testing import TemporaryHome, says
from openclaw.testing.server import MockModelServer
from tests.web.support import SharedBrowser, site

pytestmark = pytest.mark.system

ADD = "document.querySelector('oc-config [data-path=\"{}\"] > .add input')"


def add(page: Any, path: str, name: str) -> None:
    page.locator(f"[data-path='{path}'] > .add input").fill(name)
    page.locator(f"[data-path='{path}'] > .add button").click()


def save(page: Any) -> None:
    page.click("oc-config .sticky .primary")
    page.wait_for_selector("text=Saved.")


def test_named_things_are_added_changed_and_removed(openclaw_home: TemporaryHome, browser: SharedBrowser) -> None:
    def written() -> Any:
        return json.loads(openclaw_home.config_path.read_text())

    with MockModelServer([says("hi")]) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here:
            page = here.open()
            page.goto(f"{here.address}/config")
            page.click("oc-config .list >> text=mcp")
            add(page, "mcp.servers", "files.local")
            page.fill("[id='mcp.servers[\"files.local\"].command']", "files-server")
            page.fill("[id='mcp.servers[\"files.local\"].args']", "--root\n/srv/files")
            add(page, 'mcp.servers["files.local"].env', "API_KEY")
            assert page.get_attribute("[id='mcp.servers[\"files.local\"].env.API_KEY']", "type") == "password"
            page.fill("[id='mcp.servers[\"files.local\"].env.API_KEY']", "hush-hush-hush")
            save(page)
            made = {"command": "files-server", "args": ["--root", "/srv/files"], "env": {"API_KEY": "hush-hush-hush"}}
            assert written()["mcp"]["servers"] == {"files.local": made}
            page.fill("[id='mcp.servers[\"files.local\"].args']", "--root")
            save(page)
            assert written()["mcp"]["servers"]["files.local"]["args"] == ["--root"]
            assert written()["mcp"]["servers"]["files.local"]["env"] == made["env"], "a hidden secret stays what it was"

            add(page, "mcp.servers", "files.local")
            assert "already" in page.evaluate(f"() => {ADD.format('mcp.servers')}.validationMessage")
            page.click("[aria-label='Remove mcp.servers[\"files.local\"]']")
            page.wait_for_selector("[id='mcp.servers[\"files.local\"].command']", state="detached")
            save(page)
            assert not written().get("mcp", {}).get("servers")
            assert written()["models"]["providers"]["mock"]["models"], "what was not touched is as it was"
            assert here.complaints == []


def test_a_section_of_named_things_is_there_and_found(openclaw_home: TemporaryHome, browser: SharedBrowser) -> None:
    with site(openclaw_home, browser) as here:
        page = here.open()
        page.goto(f"{here.address}/config")
        page.click("oc-config .list >> text=channels")
        page.wait_for_selector("[id='channels.telegram.botToken']")
        add(page, "channels", "telegram")
        assert "already" in page.evaluate(f"() => {ADD.format('channels')}.validationMessage")
        add(page, "channels", "mailbox")
        page.select_option("[id='channels.mailbox.dmPolicy']", '"allowlist"')
        page.fill("[aria-label='Search the settings']", "bootstrapMaxChars")
        page.wait_for_selector("[id='agents.defaults.bootstrapMaxChars']")
        assert page.locator(".field").count() < 5
        page.fill("[aria-label='Search the settings']", "")
        save(page)
        kept = json.loads(openclaw_home.config_path.read_text())
        assert kept["channels"]["mailbox"]["dmPolicy"] == "allowlist"


def test_a_new_person_is_told_how_to_get_a_model_and_settings_fit_a_phone(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    with site(openclaw_home, browser) as here:
        page = here.open()
        page.wait_for_selector(".empty >> text=No model is set up yet")
        page.set_viewport_size({"width": 390, "height": 800})
        page.click(".empty >> text=Connect a model")
        page.wait_for_selector("oc-models >> text=No model yet")
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
        page.click("text=Menu")
        page.click("nav a[href$='/config']")
        page.click("oc-config .list >> text=tools")
        box = page.locator("[id='tools.profile']").bounding_box()
        assert box is not None and box["y"] < 500, "the fields are there without scrolling past every section"
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
        assert here.complaints == []
