"""The browser that the tests of this package share."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.web.support import CHROMIUM, SharedBrowser

THRIFTY = (
    "--disable-gpu",
    "--disable-extensions",
    "--disable-component-update",
    "--disable-site-isolation-trials",
    "--process-per-site",
)
"""Fewer processes for each page, which halves what opening one costs."""


@pytest.fixture(scope="package")
def launched() -> Iterator[tuple[SharedBrowser, asyncio.AbstractEventLoop]]:
    if CHROMIUM is None:
        pytest.skip("needs chromium: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", *THRIFTY])
        loop = asyncio.get_running_loop()
        asyncio._set_running_loop(None)
        yield SharedBrowser(found), loop
        asyncio._set_running_loop(loop)
        found.close()


@pytest.fixture
def browser(launched: tuple[SharedBrowser, asyncio.AbstractEventLoop]) -> Iterator[SharedBrowser]:
    """The driver's loop counts as running in this thread, which would keep tests without a browser from their own."""
    shared, loop = launched
    asyncio._set_running_loop(loop)
    yield shared
    asyncio._set_running_loop(None)
