"""The pages beside the chat, in a real browser."""

import json

import pytest

from openclaw.testing import TemporaryHome, says
from openclaw.testing.server import MockModelServer
from tests.web.support import SharedBrowser, say, site, wait_idle

pytestmark = pytest.mark.system


def test_conversations_are_made_named_started_anew_exported_and_deleted(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    with MockModelServer([says("**hello** there")]) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here:
            page = here.open()
            say(page, "hi")
            page.wait_for_selector("text=hello there")
            wait_idle(page)
            page.click("nav a[href$='/sessions']")
            page.click("text=New conversation")
            page.wait_for_url("**/chat/agent*")
            made = page.url
            page.click("nav a[href$='/sessions']")
            page.wait_for_selector("oc-sessions tbody >> text=New conversation")
            page.click("oc-sessions .primary")
            page.wait_for_url(made)
            say(page, "second")
            page.wait_for_selector("text=hello there")
            wait_idle(page)
            page.click("nav a[href$='/sessions']")
            page.wait_for_function("() => document.querySelectorAll('oc-sessions tbody tr').length === 2")
            row = page.locator("tr[data-key='agent:main:main']")
            assert "100 / 10" in row.inner_text()
            row.locator(".actions summary").click()
            row.locator("text=Rename").click()
            page.fill("dialog input", "Groceries")
            page.click("dialog .primary")
            page.wait_for_selector("oc-sessions >> text=Groceries")
            row.locator(".actions summary").click()
            with page.expect_download() as download:
                row.locator("text=Export as Markdown").click()
            assert download.value.suggested_filename == "Groceries.md"
            assert "**hello** there" in download.value.path().read_text()
            row.locator(".actions summary").click()
            row.locator("text=Start anew").click()
            page.click("dialog .primary")
            page.wait_for_selector("text=Started anew.")
            other = page.locator("tr:not([data-key='agent:main:main'])[data-key]")
            other.locator(".actions summary").click()
            other.locator("text=Delete").click()
            page.click("dialog .primary")
            page.wait_for_selector("text=Deleted.")
            page.wait_for_selector("tr[data-key*=':dashboard:']", state="detached")
            page.goto(f"{here.address}/chat/main")
            page.wait_for_selector("text=Nothing has been said here yet")
            assert here.complaints == []


def test_a_menu_stays_with_its_conversation_when_the_list_is_put_in_another_order(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    with MockModelServer([says("hello there")]) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here:
            page = here.open()
            say(page, "first")
            wait_idle(page)
            page.click("nav a[href$='/sessions']")
            page.click("text=New conversation")
            page.wait_for_url("**/chat/agent*")
            say(page, "second")
            wait_idle(page)
            other = here.enter(page.context.new_page())
            page.click("nav a[href$='/sessions']")
            page.wait_for_selector("tbody tr:nth-child(2)[data-key='agent:main:main']")
            page.locator("tr[data-key='agent:main:main'] .actions summary").click()
            other.goto(f"{here.address}/chat/main")
            say(other, "third")
            page.wait_for_selector("tbody tr:nth-child(1)[data-key='agent:main:main']")
            opened = "() => [...document.querySelectorAll('tr:has(details[open])')].map(row => row.dataset.key)"
            assert page.evaluate(opened) == ["agent:main:main"]
            assert here.complaints == []


def test_the_prompt_is_shown_by_sections_with_what_changed(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    with MockModelServer([says("ok")]) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here:
            page = here.open()
            say(page, "one")
            page.wait_for_selector("article.assistant")
            wait_idle(page)
            (openclaw_home.workspace / "SOUL.md").write_text("Speak like a pirate.\n")
            say(page, "two")
            page.wait_for_function("() => document.querySelectorAll('article.assistant:not(.live)').length === 2")
            wait_idle(page)
            page.click("nav a[href*='/prompt/']")
            page.wait_for_selector(".stack a")
            assert page.locator(".stack a").count() == page.locator("details.section").count()
            assert page.locator(".stack a.cached").count() > 3
            assert "SOUL.md" in page.inner_text(".changes")
            page.click("details.section summary:has-text('SOUL.md')")
            assert "Speak like a pirate." in page.inner_text("details.section[open] pre")
            widths = page.eval_on_selector_all(".stack a", "all => all.map(each => each.clientWidth)")
            assert max(widths) > 3 * min(widths)
            assert here.complaints == []


def test_a_workspace_file_is_edited_and_a_change_behind_our_back_is_not_overwritten(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    with site(openclaw_home, browser) as here:
        page = here.open()
        page.click("nav a[href$='/files']")
        page.click("oc-files >> text=SOUL.md")
        page.fill(".editor textarea", "Be kind.\n")
        page.press(".editor textarea", "Control+s")
        page.wait_for_selector("text=SOUL.md is saved")
        soul = openclaw_home.workspace / "SOUL.md"
        assert soul.read_text() == "Be kind.\n"
        soul.write_text("Somebody else was here.\n")
        page.fill(".editor textarea", "Overwritten?\n")
        page.click(".editor .primary")
        page.wait_for_selector(".problem >> text=has changed")
        assert soul.read_text() == "Somebody else was here.\n"


def test_a_setting_is_changed_in_the_form_and_a_wrong_one_is_refused(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    openclaw_home.configure({"gateway": {"auth": {"token": "a-secret-of-thirty-two-characters"}}})
    with site(openclaw_home, browser) as here:
        page = here.visitor().new_page()
        page.goto(here.link())
        page.wait_for_selector(".connection", state="detached")
        page.click("nav a[href$='/config']")
        page.click("oc-config .list >> text=tools")
        page.select_option("[id='tools.exec.security']", '"deny"')
        page.click("oc-config >> text=Save 1")
        page.wait_for_selector("text=Saved.")
        written = json.loads(openclaw_home.config_path.read_text())
        assert written["tools"]["exec"]["security"] == "deny"
        assert "a-secret-of" not in page.content()
        assert written["gateway"]["auth"]["token"] == "a-secret-of-thirty-two-characters"
        page.fill("[id='tools.allow']", "[1, 2]")
        page.press("[id='tools.allow']", "Tab")
        page.click("oc-config >> text=Save 1")
        page.wait_for_selector("oc-config .problem")
        assert "allow" not in json.loads(openclaw_home.config_path.read_text())["tools"]


def test_logs_health_devices_and_models_are_there_and_a_removed_device_is_out(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    with MockModelServer([says("ok")]) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here:
            page = here.open()
            page.click("nav a[href$='/logs']")
            page.wait_for_selector(".line >> text=listens on")
            page.click("nav a[href$='/system']")
            page.wait_for_selector("text=Check again")
            assert "mock/mock" in page.inner_text("oc-system")
            assert "on Linux" in page.inner_text("oc-system")
            page.click("oc-system >> text=Remove")
            page.click("dialog .primary")
            page.wait_for_selector(".gate")


def test_notes_are_found_and_skills_are_listed(openclaw_home: TemporaryHome, browser: SharedBrowser) -> None:
    (openclaw_home.workspace / "MEMORY.md").write_text("# Home\n\nThe boiler code is <b>4711</b>.\n")
    with site(openclaw_home, browser) as here:
        page = here.open()
        page.click("nav a[href$='/memory']")
        page.fill("oc-memory input", "boiler code")
        page.press("oc-memory input", "Enter")
        page.wait_for_selector(".note >> text=MEMORY.md")
        assert "The boiler code is <b>4711</b>." in page.inner_text(".note pre")
        assert "score" in page.inner_text(".note")
        page.click("nav a[href$='/skills']")
        page.wait_for_selector("[data-skill=weather] .badge >> text=accepted")
        assert here.complaints == []


PATHS = (
    "/chat/main",
    "/sessions",
    "/prompt/main",
    "/files",
    "/memory",
    "/skills",
    "/schedule",
    "/channels",
    "/usage",
    "/config",
    "/logs",
    "/system",
)
UNNAMED = """() => [...document.querySelectorAll('button, input:not([type=file]), select, textarea, summary, svg, img')]
    .filter(each => !each.textContent.trim() && !each.ariaLabel && !each.labels?.length && !each.hasAttribute('alt'))
    .map(each => each.outerHTML)"""
FAINT = """() => {
    const rgb = text => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
    const light = color => {
        const even = each => each <= .04 ? each / 12.92 : ((each + .055) / 1.055) ** 2.4;
        const [r, g, b] = rgb(color).map(each => even(each / 255));
        return .2126 * r + .7152 * g + .0722 * b;
    };
    const behind = each => {
        for (let at = each; at; at = at.parentElement) {
            const color = getComputedStyle(at).backgroundColor;
            if (!/rgba\\(.*, 0\\)|transparent/.test(color)) return color;
        }
        return 'rgb(255, 255, 255)';
    };
    const own = each => [...each.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
    const read = each => each.checkVisibility({opacityProperty: true}) && !each.closest(':disabled, .off, option');
    return [...document.querySelectorAll('body *')]
        .filter(each => own(each) && read(each))
        .map(each => {
            const [one, other] = [light(getComputedStyle(each).color), light(behind(each))].sort((a, b) => b - a);
            return [(one + .05) / (other + .05), each.textContent.trim().slice(0, 40), each.className];
        })
        .filter(([ratio]) => ratio < 4.5);
}"""


def test_every_page_fits_a_phone_is_labelled_and_readable_in_light_and_dark(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    with MockModelServer([says("hello `code` there")]) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here:
            page = here.open()
            say(page, "hi")
            page.wait_for_selector("article.assistant .md")
            wait_idle(page)
            page.set_viewport_size({"width": 360, "height": 740})
            for path in PATHS:
                page.goto(here.address + path)
                page.wait_for_selector(".bar h1")
                page.wait_for_selector("text=Loading…", state="detached")
                assert page.evaluate("document.documentElement.scrollWidth") <= 360, path
                assert page.evaluate(UNNAMED) == [], path
                for scheme in ("light", "dark"):
                    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
                    assert page.evaluate(FAINT) == [], (path, scheme)
            page.emulate_media(color_scheme="light")
            light = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
            page.emulate_media(color_scheme="dark")
            dark = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
            assert (light, dark) == ("rgb(250, 248, 245)", "rgb(27, 25, 23)")
            page.click(".menu")
            page.click("nav >> text=Chat")
            page.wait_for_selector("oc-composer")
            page.click(".menu")
            page.click("nav >> text=Light or dark")
            assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == light
            assert here.complaints == []
