"""The browser that the tests of a module share.

One for all would leave its event loop running under the tests of other modules, which have loops of their own.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.web.support import CHROMIUM


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("needs chromium: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()
