"""A real Chromium, used by the tool as a model would."""

import asyncio
import json
import os
import re
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest
from msgspec import structs

from openclaw.core.settings import Fixed
from openclaw.core.tool import Effects, Output, ToolContext
from openclaw.tools.browser.schema import PARAMETERS
from openclaw.tools.browser.tool import Browsers, BrowserTool
from openclaw.tools.settings import BrowserSettings
from tests.commandline import PATIENCE
from tests.processes import children, is_alive
from tests.tools.browser.conftest import ENVIRON

pytestmark = pytest.mark.anyio


def ref_of(snapshot: str, what: str) -> str:
    """The ref of the element that `what` begins, for example `button "Send"`."""
    found = re.search(rf"- {re.escape(what)}.*?\[ref=([a-z0-9]+)\]", snapshot)
    assert found, snapshot
    return found[1]


def names_of(tabs: Output) -> set[str]:
    return set(re.findall(r'"(t\d+)"', tabs.text))


async def test_a_page_is_read_and_a_form_is_sent(site, look, tool):
    opened = await look("open", targetUrl=site.url())
    assert not opened.is_error, opened.text
    assert json.loads(opened.text.splitlines()[0])["status"] == "200"
    seen = (await look("snapshot")).text
    assert 'heading "Hello"' in seen
    query, send, link = ref_of(seen, 'textbox "Query"'), ref_of(seen, 'button "Send"'), ref_of(seen, 'link "Two"')
    assert tool.effects({"action": "act", "kind": "click", "ref": link}) == Effects.FETCHES
    assert Effects.SENDS_OUT in tool.effects({"action": "act", "kind": "click", "ref": send})
    await look("act", kind="type", ref=query, text="cats & dogs")
    await look("act", kind="select", ref=ref_of(seen, 'combobox "Size"'), values=["L"])
    sent = await look("act", request={"kind": "click", "ref": send})
    assert "/sent?q=cats+%26+dogs" in sent.text
    assert "you are at /sent?q=cats+%26+dogs" in (await look("text")).text


async def test_what_a_page_says_is_enclosed_and_cleaned(site, look):
    for shown in (await look("open", targetUrl=site.url()), await look("snapshot"), await look("tabs")):
        assert shown.enclosed
        assert shown.origins[0].label == "external"
        assert "<|im_start|>" not in shown.text
        assert shown.text.count("<<<END_EXTERNAL_UNTRUSTED_CONTENT") == 1
        assert "Source: Browser" in shown.text


async def test_only_allowed_addresses_are_reached_whatever_leads_there(site, look):
    await look("open", targetUrl=site.url())
    await look("act", kind="wait", loadState="networkidle")
    assert "127.0.0.1/" in site.asked
    assert not [each for each in site.asked if each.startswith("localhost")], "a picture of another host"
    for path, told in ((site.url("/away"), "localhost"), (f"http://localhost:{site.port}/", "localhost")):
        gone = await look("navigate", targetUrl=path)
        assert gone.is_error
        assert f"Blocked: {told} is a private" in gone.text
    assert (await look("navigate", targetUrl="http://169.254.169.254/latest")).is_error
    refused = await look("navigate", targetUrl="file:///etc/passwd")
    assert "Only http and https" in refused.text
    await look("navigate", targetUrl=site.url("/two"))
    for script in (
        f"() => fetch('http://localhost:{site.port}/by-script').then(a => a.text(), e => 'no')",
        f"() => new Promise(done => {{ const s = new WebSocket('ws://localhost:{site.port}/socket'); "
        "s.onerror = () => done('no'); s.onopen = () => done('open') })",
        "() => { location.href = 'file:///etc/passwd'; return 'tried' }",
    ):
        assert "root:" not in (await look("act", kind="evaluate", fn=script)).text
    assert not [each for each in site.asked if each.startswith("localhost")], site.asked
    assert "root:" not in (await look("text")).text
    assert "refused: Blocked: localhost" in (await look("requests")).text


async def test_files_stay_in_the_downloads_under_harmless_names(site, look, workspace: Path):
    await look("open", targetUrl=site.url())
    seen = (await look("snapshot")).text
    got = await look("download", ref=ref_of(seen, 'link "File"'))
    assert json.loads(got.text.splitlines()[0])["files"] == [str(workspace / "downloads" / "evil.sh")]
    assert (workspace / "downloads" / "evil.sh").read_bytes() == b"data"
    assert not os.access(workspace / "downloads" / "evil.sh", os.X_OK)
    again = await look("navigate", targetUrl=site.url("/file.bin"))
    assert json.loads(again.text.splitlines()[0])["files"] == [str(workspace / "downloads" / "evil-2.sh")]
    shot = await look("screenshot", path="../../../outside.png", type="png", fullPage=True)
    assert (workspace / "downloads" / "outside.png").read_bytes().startswith(b"\x89PNG")
    assert shot.content[1].mime_type == "image/png"
    await look("pdf", path="/etc/page.pdf")
    assert (workspace / "downloads" / "page.pdf").read_bytes().startswith(b"%PDF")


async def test_only_files_of_the_workspace_are_uploaded(site, look, workspace: Path):
    (workspace / "paper.txt").write_text("words")
    await look("open", targetUrl=site.url())
    field = ref_of((await look("snapshot")).text, 'button "Paper"')
    assert "not a file of the workspace" in (await look("upload", paths=["/etc/passwd"], inputRef=field)).text
    assert not (await look("upload", paths=["paper.txt"], inputRef=field)).is_error
    chosen = await look("act", kind="evaluate", fn="() => document.querySelector('[type=file]').files[0].name")
    assert '"paper.txt"' in chosen.text


async def test_questions_of_a_page_never_hang_anything(site, look):
    await look("open", targetUrl=site.url())
    told = await look("act", kind="click", selector="text=Alert")
    assert "sure?" in told.text
    assert "dismissed" in told.text
    await look("dialog", accept=True, promptText="Ada")
    await look("act", kind="click", selector="text=Prompt")
    assert '"Ada"' in (await look("act", kind="evaluate", fn="() => document.title")).text


async def test_tabs_have_names_that_stay(site, look):
    await look("open", targetUrl=site.url(), label="front")
    before = names_of(await look("tabs"))
    await look("act", kind="click", selector="text=Beside")
    async with asyncio.timeout(PATIENCE):
        while not (new := names_of(await look("tabs")) - before):
            await asyncio.sleep(0.05)
    [beside] = new
    await look("focus", targetId="front")
    assert '"Front' in (await look("tabs")).text
    await look("close", targetId=beside)
    assert names_of(await look("tabs")) == before
    assert f"no tab '{beside}'" in (await look("snapshot", targetId=beside)).text


async def test_what_a_page_logs_can_be_read(site, look):
    await look("open", targetUrl=site.url())
    await look(
        "act", kind="batch", actions=[{"kind": "click", "selector": "text=Talk"}, {"kind": "wait", "timeMs": 50}]
    )
    assert "log: said" in (await look("console")).text
    assert "nowhere is not defined" in (await look("errors")).text


async def test_cookies_are_kept_by_profile_and_nothing_runs_afterwards(site, settings, workspace: Path, tmp_path: Path):
    context = ToolContext(call_id="c", workspace=workspace)
    others = children()

    async def visit(profile: str, script: str) -> str:
        browsers = Browsers(Fixed(ENVIRON))
        tool = BrowserTool(browsers, settings, tmp_path)
        try:
            await tool.call({"action": "open", "targetUrl": site.url("/two"), "profile": profile}, context)
            started = children() - others
            assert len(started) > 3
            environs = [psutil.Process(pid).environ() for pid in started if psutil.pid_exists(pid)]
            assert not [each for each in environs if "OPENAI_API_KEY" in each]
            return (
                await tool.call({"action": "act", "kind": "evaluate", "fn": script, "profile": profile}, context)
            ).text
        finally:
            await browsers.close()
            async with asyncio.timeout(PATIENCE):
                while [pid for pid in started if is_alive(pid)]:
                    await asyncio.sleep(0.1)

    await visit("one", "() => { document.cookie = 'a=b; max-age=9999'; return 1 }")
    assert '"a=b"' in await visit("one", "() => document.cookie")
    assert '""' in await visit("two", "() => document.cookie")
    assert (tmp_path / "one" / "user-data").is_dir()


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ({"action": "importprofile"}, "not available"),
        ({"action": "open", "target": "node"}, "host only"),
        ({"action": "open", "profile": "../x"}, "profile is"),
        ({"action": "navigate"}, "needs targetUrl"),
        ({"action": "act"}, "needs a kind"),
        ({"action": "upload"}, "needs paths"),
        ({"action": "dance"}, "action is one of"),
    ],
)
async def test_what_cannot_be_done_says_why(tool, workspace, args, told):
    output = await tool.call(args, ToolContext(call_id="c", workspace=workspace))
    assert output.is_error
    assert told in output.text


async def test_what_is_missing_says_what_to_install(tmp_path: Path, workspace: Path):
    context = ToolContext(call_id="c", workspace=workspace)
    nowhere = Browsers(Fixed({"PATH": str(tmp_path)}))
    here = BrowserTool(nowhere, BrowserSettings(no_sandbox=True), tmp_path / "b")
    none = await here.call({"action": "open"}, context)
    assert "apt install chromium" in none.text
    wrong = BrowserSettings(executable_path=str(tmp_path / "none"))
    tool = BrowserTool(nowhere, wrong, tmp_path / "b")
    assert "executablePath" in (await tool.call({"action": "open"}, context)).text
    told = json.loads((await here.call({"action": "status"}, context)).text)
    assert told["running"] is False
    assert "apt install chromium" in told["problem"]
    await nowhere.close()


async def test_a_script_can_be_forbidden(settings, workspace, tmp_path):
    browsers = Browsers(Fixed(ENVIRON))
    tool = BrowserTool(browsers, structs.replace(settings, evaluate_enabled=False), tmp_path)
    context = ToolContext(call_id="c", workspace=workspace)
    output = await tool.call({"action": "act", "kind": "evaluate", "fn": "() => 1"}, context)
    await browsers.close()
    assert "browser.evaluateEnabled" in output.text


async def test_a_stale_ref_says_to_look_again(site, look):
    await look("open", targetUrl=site.url())
    output = await look("act", kind="click", ref="e999", timeoutMs=500)
    assert output.is_error
    assert "take a new snapshot" in output.text


def test_every_parameter_says_what_it_is_for():
    assert all(one["type"] and one["description"] for one in PARAMETERS["properties"].values())
