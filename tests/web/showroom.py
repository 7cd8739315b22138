"""A home with something to see on every page, and the pictures of it."""

import asyncio
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from openclaw.testing import Step, TemporaryHome, calls, says
from openclaw.testing.server import MockModelServer, Reply
from tests.channels.telegram.server import TOKEN, Fault, TelegramServer
from tests.web.support import CHROMIUM, SharedBrowser, Site, say, site, wait_idle

SIZE = {"width": 1120, "height": 720}
PHONE = {"width": 390, "height": 760}

PLAN = (
    ("Read the notes about the trip", "completed"),
    ("Check the train times", "in_progress"),
    ("Write the packing list", "pending"),
)
ANSWER = """The **6:42 train** is the one to take; it gets you to the ferry with an hour to spare.

| leg | leaves | arrives |
|---|---|---|
| train | 6:42 | 10:15 |
| ferry | 11:30 | 13:05 |

```python
print("pack:", ", ".join(["passport", "rain coat", "charger"]))
```
"""


def _plan() -> list[dict[str, str]]:
    return [{"step": step, "status": status} for step, status in PLAN]


SCRIPT: dict[str, list[Reply | Sequence[Step]]] = {
    "going to Lisbon": [
        calls("sessions_spawn", task="Compare the ferries to the south bank.", label="Research: ferries"),
        says("Lisbon it is. I wrote the dates down, and a sub-agent looks at the ferries."),
    ],
    "Compare the ferries": [says("Three ferries; the one from Cais do Sodré is the cheapest.")],
    "Find the connection": [
        [says("I look at the notes first."), calls("read", path="memory/2026-03-14.md")],
        calls("update_plan", plan=_plan()),
        calls(
            "edit",
            path="trip.md",
            edits=[{"oldText": "- train: ?\n- ferry: ?", "newText": "- train: 6:42\n- ferry: 11:30"}],
        ),
        says(ANSWER),
    ],
    "Which screws": [says("Frame plugs, 8 by 80, and a drill that strikes.")],
    "Back it up": [
        calls("exec", command="tar czf trip-backup.tgz trip.md memory && ls -l trip-backup.tgz"),
        says("All right, I leave it."),
    ]
    * 2,
}


class Actor(MockModelServer):
    """Answers by what was asked last, so that conversations do not take each other's lines."""

    def __init__(self) -> None:
        super().__init__([says("Good.")])
        self._left = {asked: list(replies) for asked, replies in SCRIPT.items()}

    def _next(self, request: dict[str, Any]) -> tuple[Any, ...]:
        said = [str(each["content"]) for each in request["messages"] if each["role"] == "user"]
        replies = next(
            (self._left[asked] for asked in SCRIPT if said and asked in said[-1] and self._left[asked]), None
        )
        reply = replies.pop(0) if replies else self.replies[0]
        return tuple(reply) if isinstance(reply, Sequence) else (reply,)


def furnish(home: TemporaryHome, server: MockModelServer, telegram: TelegramServer) -> None:
    place = home.workspace
    (place / "memory").mkdir()
    (place / "trip.md").write_text("# Trip\n\n- train: ?\n- ferry: ?\n")
    (place / "MEMORY.md").write_text("# About home\n\nThe boiler is from 2019, serviced every March.\n")
    (place / "memory" / "2026-03-14.md").write_text(
        "# 14 March\n\nThe trip: train in the morning, ferry after eleven, back on Sunday.\n\n"
        "The ferry needs the passport, the train does not.\n"
    )
    (place / "skills" / "packing").mkdir(parents=True)
    (place / "skills" / "packing" / "SKILL.md").write_text(
        "---\nname: packing\ndescription: Packing lists that fit the weather.\n---\n\nAsk where and for how long.\n"
    )
    settings = server.settings(cost={"input": 3, "output": 15, "cacheRead": 0.3, "cacheWrite": 3.75})
    provider = settings["models"]["providers"].pop("mock")
    provider["models"][0]["id"] = "assistant-large"
    settings["models"]["providers"]["local"] = provider
    settings["agents"]["defaults"] = {"model": "local/assistant-large", "heartbeat": {"every": "30m"}}
    settings["tools"] = {"experimental": {"planTool": True}}
    settings["channels"] = {"telegram": {"apiRoot": telegram.url, "botToken": TOKEN}}
    settings["delivery"] = {"unsure": "hold"}
    home.configure(settings)


def spend(home: TemporaryHome) -> None:
    """Calls of the last weeks, as the books would have them."""
    database = sqlite3.connect(home.state / "state" / "openclaw-py.sqlite")
    database.row_factory = sqlite3.Row
    sample = dict(database.execute("SELECT * FROM model_calls WHERE cost_usd IS NOT NULL LIMIT 1").fetchone())
    now = datetime.now(UTC)
    for days in range(1, 28):
        for model, share in (("assistant-large", 1.0), ("assistant-small", 0.25)):
            weight = share * (1 + (days * 7) % 5 + (days % 6 == 0) * 6)
            row = {
                **sample,
                "call_id": f"{model}-{days}",
                "model": model,
                "at": round((now - timedelta(days=days)).timestamp() * 1000),
                "day": (now - timedelta(days=days)).date().isoformat(),
                "input_tokens": round(41_000 * weight),
                "output_tokens": round(6_000 * weight),
                "cache_read_tokens": round(90_000 * weight),
                "input_cost": 0.041 * weight,
                "output_cost": 0.09 * weight,
                "cache_read_cost": 0.03 * weight,
                "cost_usd": 0.161 * weight,
            }
            names = ", ".join(row)
            marks = ", ".join(f":{name}" for name in row)
            database.execute(f"INSERT INTO model_calls ({names}) VALUES ({marks})", row)
    database.commit()
    database.close()


async def arrange(here: Site, telegram: TelegramServer) -> None:
    """Jobs, conversations, somebody who asks to be heard, and a message that may have arrived."""
    morning = {
        "name": "Morning briefing",
        "schedule": {"kind": "cron", "expr": "30 7 * * 1-5", "tz": "Europe/Lisbon"},
        "sessionTarget": "isolated",
        "wakeMode": "now",
        "payload": {"kind": "agentTurn", "message": "Weather, calendar, and what needs an answer today."},
    }
    reminder = {
        "name": "Water the plants",
        "schedule": {"kind": "every", "everyMs": 3 * 86_400_000},
        "sessionTarget": "main",
        "wakeMode": "next-heartbeat",
        "payload": {"kind": "systemEvent", "text": "Remind me to water the plants."},
    }
    async with here.gateway.client() as client:
        await client.call("cron.add", morning)
        await client.call("cron.add", reminder)
        shelves = await client.call("sessions.create", {"label": "Kitchen shelves"})
        asked = {"message": "Which screws hold in brick?", "idempotencyKey": "shelves", "sessionKey": shelves["key"]}
        await client.call("agent", asked, final=True)
        telegram.says("hello", sender=7)
        await asyncio.to_thread(telegram.hears, 1)
        telegram.faults = [Fault("sendMessage", cut="before")]
        late = {"to": "telegram:8", "message": "The ferry leaves at 11:30.", "idempotencyKey": "ferry"}
        await client.call("send", late)


@contextmanager
def made_up(folder: Path) -> Iterator[Path]:
    """A home whose path may be shown."""
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def showroom(browser: SharedBrowser) -> Iterator[Site]:
    with made_up(Path(tempfile.gettempdir()) / "home") as folder, Actor() as server, TelegramServer() as telegram:
        home = TemporaryHome(folder)
        furnish(home, server, telegram)
        with site(home, browser) as here:
            page = here.open(here.visitor())
            say(page, "I am going to Lisbon on the 20th.")
            page.wait_for_selector("text=wrote the dates down")
            wait_idle(page)
            page.wait_for_selector("text=Good.")
            wait_idle(page)
            say(page, "Find the connection and put it in trip.md, please.")
            page.wait_for_selector("text=an hour to spare")
            wait_idle(page)
            page.close()
            with ThreadPoolExecutor(1) as aside:  # the browser's driver keeps a loop in this thread
                aside.submit(asyncio.run, arrange(here, telegram)).result()
            spend(home)
            (home.workspace / "SOUL.md").write_text("Be warm and brief. Say when you are not sure.\n")
            yield here


def shots(page: Any, here: Site) -> Iterator[str]:
    """Puts the page into one state after the other; each is worth a picture."""

    def to(name: str, sign: str) -> None:
        page.click(f"nav a[href*='/{name}']")
        page.wait_for_selector(sign)

    page.wait_for_selector("figure.code")
    yield "chat"
    to("sessions", "oc-sessions td.name")
    yield "sessions"
    to("prompt", ".stack a")
    yield "prompt"
    to("files", "oc-files .list button")
    page.click("oc-files >> text=SOUL.md")
    page.wait_for_selector(".editor textarea")
    page.fill(".editor textarea", "Be warm and brief. Say when you are not sure. Ask before you spend money.\n")
    page.press(".editor textarea", "Control+s")
    page.wait_for_selector("text=is saved")
    page.click("text=History")
    page.click(".versions button >> nth=0")
    page.wait_for_selector(".versions .diff")
    yield "files"
    to("memory", "oc-memory")
    page.fill("oc-memory input[name=query]", "ferry passport")
    page.press("oc-memory input[name=query]", "Enter")
    page.wait_for_selector(".note")
    yield "memory"
    # Changed for each visitor: the message after it accepts it as it is.
    with (here.gateway.home.workspace / "skills" / "packing" / "SKILL.md").open("a") as skill:
        skill.write("\nNever more than one bag.\n")
    to("skills", "[data-skill=packing]")
    page.click("[data-skill=packing] button")
    page.wait_for_selector(".trust .diff")
    yield "skills"
    to("schedule", "oc-cron tbody tr")
    page.click("tr[data-job] >> nth=1 >> .actions summary")
    page.click("tr[data-job] >> nth=1 >> text=Run now")
    page.wait_for_selector("oc-cron .good >> text=done")
    yield "schedule"
    page.keyboard.press("Control+k")
    page.wait_for_selector("dialog.palette")
    yield "palette"
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")
    to("channels", "[data-held]")
    page.wait_for_selector("oc-channels .badge.good")
    yield "channels"
    to("usage", ".chart svg")
    yield "usage"
    to("config", "oc-config .list")
    yield "config"
    to("logs", ".line")
    yield "logs"
    to("system", "oc-system dl")
    # Which machine made the picture is of no interest.
    machine = page.locator("oc-system dt:has-text('Machine') + dd")
    machine.evaluate("each => { each.textContent = 'laptop (Linux, x86_64)' }")
    yield "system"
    page.click("nav a[href*='/chat']")
    say(page, "Back it up, please.")
    page.wait_for_selector(".approval")
    yield "approval"
    page.click("[data-decision=deny]")
    page.wait_for_selector(".approval", state="detached")
    wait_idle(page)


def take(folder: Path, only: Sequence[str] = ()) -> Iterator[Path]:
    """Every picture, light and dark."""
    from playwright.sync_api import sync_playwright

    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        with showroom(SharedBrowser(browser)) as here:
            for scheme in ("light", "dark"):
                context = here.visitor(color_scheme=scheme, reduced_motion="reduce")
                page = here.open(context)
                page.set_viewport_size(SIZE)
                for name in shots(page, here):
                    if not only or name in only:
                        path = folder / f"{name}-{scheme}.png"
                        page.screenshot(path=path)
                        yield path
                page.set_viewport_size(PHONE)
                for name in ("chat", "usage", "schedule"):
                    page.goto(f"{here.address}/{name}")
                    page.wait_for_selector(".bar h1")
                    page.wait_for_selector({"chat": "figure.code", "usage": ".chart", "schedule": "tbody"}[name])
                    if not only or f"phone-{name}" in only:
                        path = folder / f"phone-{name}-{scheme}.png"
                        page.screenshot(path=path)
                        yield path
                context.close()
        browser.close()
