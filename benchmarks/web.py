"""How heavy the web page is, how soon it shows the first message with a cold cache, and what 10,000 messages cost it.

    python benchmarks/web.py [--runs 7]

A real gateway and a real Chromium on this machine; every look is a browser that was never here.
"""

import argparse
import gzip
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    arguments = parser.parse_args()
    from playwright.sync_api import sync_playwright

    from openclaw.gateway.http.pages import BUILT, read
    from openclaw.testing import TemporaryHome, says
    from openclaw.testing.server import MockModelServer
    from tests.web.support import CHROMIUM, SharedBrowser, long_conversation, say, site, wait_idle

    weight = {name: len(gzip.compress(file.data)) for name, file in read(BUILT, "").items() if "assets" in name}
    print(f"page weight, gzip: {sum(weight.values()):,} bytes ({', '.join(weight)})")
    with tempfile.TemporaryDirectory() as folder, MockModelServer([says("an answer")]) as server:
        home = TemporaryHome(Path(folder))
        home.configure(server.settings())
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            with site(home, SharedBrowser(browser)) as here:
                page = here.open(here.visitor())
                say(page, "question 0")
                page.wait_for_selector("text=an answer")
                wait_idle(page)
                page.close()
                told("first message visible, cold cache, short conversation", looks(here, arguments.runs, "an answer"))
                here.gateway.stop()
                long_conversation(home.transcripts()[0], 10_000)
                here.gateway.start()
                last = "question 9998"
                told("first message visible, cold cache, 10,000 messages", looks(here, arguments.runs, last))
                scroll(here)
            browser.close()
    return 0


def looks(here: Any, runs: int, sign: str) -> list[float]:
    """Seconds until a browser that was never here sees `sign`, from the moment it is sent here."""
    taken = []
    for _ in range(runs):
        context = here.visitor()
        page = context.new_page()
        began = time.perf_counter()
        page.goto(f"{here.address}/#token={here.gateway.token.reveal()}", wait_until="commit")
        page.wait_for_selector(f"article >> text={sign}")
        taken.append(time.perf_counter() - began)
        context.close()
    return taken


def scroll(here: Any) -> None:
    page = here.open()
    page.wait_for_selector("article")
    counts = []
    began = time.perf_counter()
    for _ in range(30):
        before = page.locator("article").first.get_attribute("data-id")
        page.evaluate("document.querySelector('.talk').scrollTop = 0")
        page.wait_for_function("id => document.querySelector('article').dataset.id !== id", arg=before, polling=20)
        counts.append(page.evaluate("document.querySelectorAll('*').length"))
    taken = time.perf_counter() - began
    print(f"30 pages up: {taken:.1f} s; elements on the page: {counts[0]}, at most {max(counts)}, last {counts[-1]}")


def told(what: str, taken: list[float]) -> None:
    print(f"{what}: median {statistics.median(taken) * 1000:.0f} ms, worst {max(taken) * 1000:.0f} ms of {len(taken)}")


if __name__ == "__main__":
    sys.exit(main())
