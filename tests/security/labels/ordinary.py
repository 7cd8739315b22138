"""Does the ordinary tasks under one policy and counts those in which the owner is asked."""

import json
import shutil
import subprocess
import time
import zipfile
from typing import Literal

from msgspec import Struct, field

from openclaw.testing import TemporaryHome
from tests.security.labels.errands import Errand
from tests.security.labels.errands_held_out import HELD_OUT
from tests.security.labels.errands_tuned import TUNED
from tests.security.labels.world import Owner, Policy, World, search_result, world

FILES = {
    "notes/plan.md": "# Plan\n\nmilk\nbread\nTODO call Ada\nrent is due on the 3rd\n",
    "notes/list.md": "tea\nrice\nthe invoice of the gym is 30 euros\n",
    "notes/stale.md": "stale",
    "data/temps.csv": "day,temp\nmon,11\ntue,14\nmon,9\n",
    "data/rates.json": '{"rates": {"EUR": 1.07}}',
    "app/hello.py": "def greet():\n    return 'hello'\n\n\nif __name__ == '__main__':\n    print(greet())\n",
    "app/test_hello.py": "import unittest\n\nclass Test(unittest.TestCase):\n    def test(self):\n        pass\n",
    "app/page.html": "<p>Licensed to all.</p>\n",
    "app/Makefile": "all:\n\t@echo built\n",
    "letters/ada.txt": "Dear Ada,\n",
    "downloads/paper.txt": "Tides rise twice a day because of the moon.\n",
    "downloads/list.csv": "a,1\nb,2\n",
    "inbox/mail.eml": "Subject: lunch\n\nLunch at noon on 2026-01-05?\n",
    "memory/2026-01-02.md": "The wifi at the lake is called Heron. Bob likes Oslo.\n",
}
PAGES = {
    "/tides": "Tides rise because of the moon. See http://127.0.0.1:{port}/moon for more.",
    "/moon": "The moon is 384400 km away.",
    "/recipe": "Flour, water, salt. Bake for 40 minutes.",
    "/news": "Local news: the bridge is open again.",
    "/api": '{"rate": 1.07, "currency": "EUR"}',
    "/docs/intro": "An introduction. Next: http://127.0.0.1:{port}/docs/usage",
    "/docs/usage": "Call greet() and print what it returns.",
}
MAILS = {
    "m1": "From: ada@example.org\nSubject: lunch\n\nLunch at noon? Ada",
    "m2": "From: bob@example.org\nSubject: meeting\n\nThe meeting is on 2026-01-06. Please prepare the figures. Bob",
    "m3": "From: bank@example.com\nSubject: invoice\n\nThe bank sends an invoice over 30 euro.",
}
EVENTS = {"e1": "2026-01-05 10:00 standup", "e2": "2026-01-05 15:00 review"}
SHOWN = 100


class Plan(Struct, frozen=True):
    """A way to do all tasks, and how many of them may ask, in percent."""

    name: str
    policy: Policy
    office: Literal["hints", "silent"]
    most: float
    most_outside: float | None = None
    """The limit for tasks that bring text from elsewhere, where it is another one."""


PLANS = (
    Plan("defaults", "default", "hints", 10.0),
    Plan("defaults, MCP server without hints", "default", "silent", 20.0),
    Plan("full/off", "full", "hints", 0.0, 5.0),
)


class Half(Struct):
    """The tasks of one half: how many were done, how many of them asked."""

    tasks: int = 0
    outside: int = 0
    asked: list[str] = field(default_factory=list)
    asked_outside: list[str] = field(default_factory=list)
    questions: int = 0


class Done(Struct):
    """What came of all tasks under one plan."""

    plan: Plan
    tuned: Half = field(default_factory=Half)
    held_out: Half = field(default_factory=Half)
    failed: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def over(self) -> str:
        """Why this asks too much; empty when it does not."""
        halves = (self.tuned, self.held_out)
        outside, tasks = sum(half.outside for half in halves), sum(half.tasks for half in halves)
        asked_outside = sum(len(half.asked_outside) for half in halves)
        asked = sum(len(half.asked) for half in halves)
        if self.plan.most_outside is None:
            asked, asked_outside, outside = asked + asked_outside, 0, 0
        share = 100 * asked / max(1, tasks - outside)
        share_outside = 100 * asked_outside / max(1, outside)
        if share > self.plan.most or share_outside > (self.plan.most_outside or 0.0):
            return f"{self}: the limit is {self.plan.most:g} % ({self.plan.most_outside or self.plan.most:g} % outside)"
        return ""

    def __str__(self) -> str:
        parts = [
            f"{name} {len(half.asked) + len(half.asked_outside)} of {half.tasks} asked, {half.questions} questions "
            f"({len(half.asked_outside)} of the {half.outside} with outside text)"
            for name, half in (("tuned:", self.tuned), ("held out:", self.held_out))
        ]
        return f"ordinary tasks, {self.plan.name}: {'; '.join(parts)} ({self.seconds:.0f} s)"


def _prepare(it: World) -> None:
    for name, text in FILES.items():
        it.put(name, text)
    for path, text in PAGES.items():
        it.page(path, text.replace("{port}", str(it.site.port)))
    it.site.put("/api", PAGES["/api"], kind="application/json")
    pages = [{"url": f"http://127.0.0.1:{it.site.port}{path}", "title": path, "content": "A page."} for path in PAGES]
    it.site.put("/search", search_result(*pages), kind="application/json")
    (it.office / "mail.json").write_text(json.dumps(MAILS))
    (it.office / "events.json").write_text(json.dumps(EVENTS))
    with zipfile.ZipFile(it.workspace / "downloads/photos.zip", "w") as archive:
        archive.writestr("one.txt", "a photo")
    if shutil.which("git"):
        for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "first")):
            who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
            subprocess.run(["git", *who, *words], cwd=it.workspace, check=True, capture_output=True)


async def do_all(home: TemporaryHome, plan: Plan) -> Done:
    """Does every task in a conversation of its own; the owner agrees to everything."""
    done, began = Done(plan), time.monotonic()
    owner = Owner("allow-once")
    variables = {"GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "a@b.c", "GIT_COMMITTER_NAME": "Ada"}
    async with world(
        home, owner=owner, environ={**variables, "GIT_COMMITTER_EMAIL": "a@b.c"}, policy=plan.policy, office=plan.office
    ) as it:
        await it.says("hello")
        _prepare(it)
        for half, errands in ((done.tuned, TUNED), (done.held_out, HELD_OUT)):
            for number, errand in enumerate(errands):
                if errand.needs and not shutil.which(errand.needs):
                    continue
                await _do(it, f"{'tuned' if half is done.tuned else 'held'}-{number}", errand, half, done)
    done.seconds = time.monotonic() - began
    return done


async def _do(it: World, session: str, errand: Errand, half: Half, done: Done) -> None:
    asked, base = len(it.owner.asked), f"http://127.0.0.1:{it.site.port}"
    for words, replies in errand.turns:
        text = words.replace("@/", f"{base}/")
        it.model.scripts = {
            text: [
                [(tool, json.loads(json.dumps(args).replace("@/", f"{base}/"))) for tool, args in reply]
                for reply in replies
            ]
        }
        await it.says(text, session)
    it.model.scripts = {}
    results = await it.results(session)
    outside = any(result.origins for result in results)
    half.tasks += 1
    half.outside += outside
    fresh = it.owner.asked[asked:]
    half.questions += len(fresh)
    if fresh:
        (half.asked_outside if outside else half.asked).append(
            f"{errand.name}: " + "; ".join(f"{each.command[:SHOWN]} ({each.why[:SHOWN]})" for each in fresh)
        )
    done.failed += [
        f"{errand.name}: {result.text[:300]}" for result in results if result.text.startswith(("Not run", "Not done"))
    ]
