"""Tabs, downloads, and the actions on a page (click, type, press, wait …) on elements that a snapshot named."""

import asyncio
import json
import re
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from playwright.async_api import Error

from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.tools.browser.schema import BrowserAction

REMEMBERED = 200
MOST_DOWNLOAD = 500 * 1024 * 1024
_UNSAFE = re.compile(r"[^\w.() -]+")


# Tabs and downloads.


class Tab:
    """One page and the events observed on it."""

    def __init__(self, name: str, page: Any, downloads: "Downloads") -> None:
        self.id = name
        self.label = ""
        self.page = page
        self.console: deque[dict[str, str]] = deque(maxlen=REMEMBERED)
        self.errors: deque[str] = deque(maxlen=REMEMBERED)
        self.requests: deque[dict[str, Any]] = deque(maxlen=REMEMBERED)
        self.dialogs: deque[str] = deque(maxlen=10)
        self.answer: tuple[bool, str | None] | None = None
        """The answer to the page's next dialog; without it, dialogs are dismissed."""
        page.on("console", lambda said: self.console.append({"type": said.type, "text": said.text[:1000]}))
        page.on("pageerror", lambda error: self.errors.append(str(error)[:1000]))
        page.on("requestfailed", self._request)
        page.on("response", lambda response: self._request(response.request, response.status))
        page.on("dialog", self._dialog)
        page.on("download", downloads.take)

    def _request(self, request: Any, status: Any = "failed") -> None:
        self.requests.append(
            {"method": request.method, "url": request.url[:500], "status": status, "type": request.resource_type}
        )

    async def _dialog(self, dialog: Any) -> None:
        accept, text = self.answer or (False, None)
        self.answer = None
        self.dialogs.append(f"{dialog.type} {dialog.message[:300]!r} was {'accepted' if accept else 'dismissed'}")
        if accept:
            await dialog.accept(text or "")
        else:
            await dialog.dismiss()


class Tabs:
    """All tabs, each with a stable name."""

    def __init__(self, context: Any, downloads: "Downloads") -> None:
        self._context = context
        self._downloads = downloads
        self._count = 0
        self._all: dict[str, Tab] = {}
        self.current = ""
        for page in context.pages:
            self.add(page)
        context.on("page", self.add)

    def add(self, page: Any) -> Tab:
        known = next((tab for tab in self._all.values() if tab.page == page), None)
        if known is not None:
            return known
        self._count += 1
        tab = Tab(f"t{self._count}", page, self._downloads)
        self._all[tab.id] = tab
        self.current = tab.id
        page.on("close", partial(self._closed, tab))
        return tab

    def _closed(self, tab: Tab, page: Any) -> None:
        self._all.pop(tab.id, None)
        if self.current == tab.id:
            self.current = next(reversed(self._all), "")

    def list(self) -> list[Tab]:
        return list(self._all.values())

    async def get(self, wanted: str | None) -> Tab:
        """The tab called `wanted`, by id or label; the current one without a name."""
        if not wanted:
            if not self._all:
                self.add(await self._context.new_page())
            return self._all[self.current]
        for tab in self._all.values():
            if wanted in (tab.id, tab.label):
                return tab
        raise NotFound(f"There is no tab {wanted!r}: action tabs lists them.")

    async def open(self) -> Tab:
        # The first tab of a new browser is empty and is reused.
        if len(self._all) == 1 and self._all[self.current].page.url == "about:blank":
            return self._all[self.current]
        return self.add(await self._context.new_page())


class Downloads:
    """Downloaded files, in one directory and under safe names."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.done: list[Path] = []
        self.failed = ""
        self._moved = asyncio.Event()

    def path_for(self, name: str) -> Path:
        """A new path in the directory; the page influences only the file's name."""
        plain = _UNSAFE.sub("_", Path(name.replace("\\", "/")).name).lstrip("._ ")[:120] or "file"
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / plain
        stem, suffix, count = path.stem, path.suffix, 1
        while path.exists():
            count += 1
            path = self.directory / f"{stem}-{count}{suffix}"
        return path

    async def take(self, download: Any) -> None:
        path = self.path_for(download.suggested_filename)
        try:
            await download.save_as(path)
            if path.stat().st_size > MOST_DOWNLOAD:
                path.unlink()
                self.failed = f"{path.name} is larger than {MOST_DOWNLOAD // 1024 // 1024} MB and was not kept"
            else:
                path.chmod(0o600)
                self.done.append(path)
        except (Error, OSError) as error:
            self.failed = f"{path.name}: {str(error)[:200]}"
        self._moved.set()
        self._moved = asyncio.Event()

    async def next(self, already: int, seconds: float) -> Path:
        """The first file after the `already` known ones."""
        try:
            async with asyncio.timeout(seconds):
                while len(self.done) <= already:
                    if self.failed:
                        failed, self.failed = self.failed, ""
                        raise InvalidRequest(f"The download failed: {failed}")
                    await self._moved.wait()
        except TimeoutError as error:
            raise InvalidRequest(f"No download came within {seconds:g} s.") from error
        return self.done[already]


# Actions.

RESULT_CHARS = 20_000


def element(tab: Tab, ref: str | None, selector: str | None = None) -> Any:
    """The element a snapshot called `ref`, or that a CSS selector finds."""
    if ref:
        return tab.page.locator(f"aria-ref={ref.removeprefix('ref=').strip('[]@')}")
    if selector:
        return tab.page.locator(selector).first
    raise InvalidRequest("Say on what: give a ref of the last snapshot, or a selector.")


async def perform(tab: Tab, act: BrowserAction, *, evaluate: bool) -> str:
    """Performs one action; returns what to report."""
    if act.kind == "evaluate" and not evaluate:
        raise InvalidRequest("Running scripts in pages is switched off (browser.evaluateEnabled).")
    doing = _KINDS.get(act.kind)
    if doing is None:
        raise InvalidRequest(f"kind is one of {', '.join((*_KINDS, 'batch'))}.")
    return await doing(tab, act)


async def _click(tab: Tab, act: BrowserAction) -> str:
    target = element(tab, act.ref, act.selector)
    modifiers = [_modifier(name) for name in act.modifiers] or None
    given = {"button": _button(act.button), "modifiers": modifiers, "timeout": act.timeout, "delay": act.delay_ms or 0}
    await (target.dblclick(**given) if act.double_click else target.click(**given))
    return "clicked"


async def _click_coords(tab: Tab, act: BrowserAction) -> str:
    if act.x is None or act.y is None:
        raise InvalidRequest("clickCoords needs x and y.")
    await tab.page.mouse.click(
        act.x, act.y, button=_button(act.button), click_count=2 if act.double_click else 1, delay=act.delay_ms or 0
    )
    return "clicked"


async def _type(tab: Tab, act: BrowserAction) -> str:
    if act.text is None:
        raise InvalidRequest("type needs text.")
    target = element(tab, act.ref, act.selector)
    if act.slowly:
        await target.click(timeout=act.timeout)
        await target.press_sequentially(act.text, delay=act.delay_ms or 75, timeout=max(act.timeout, 30_000))
    else:
        await target.fill(act.text, timeout=act.timeout)
    if act.submit:
        await target.press("Enter", timeout=act.timeout)
    return "typed and submitted" if act.submit else "typed"


async def _press(tab: Tab, act: BrowserAction) -> str:
    if not act.key:
        raise InvalidRequest("press needs a key, for example Enter or Control+a.")
    if act.ref or act.selector:
        await element(tab, act.ref, act.selector).press(act.key, delay=act.delay_ms or 0, timeout=act.timeout)
    else:
        await tab.page.keyboard.press(act.key, delay=act.delay_ms or 0)
    return f"pressed {act.key}"


async def _hover(tab: Tab, act: BrowserAction) -> str:
    await element(tab, act.ref, act.selector).hover(timeout=act.timeout)
    return "the pointer is over it"


async def _scroll(tab: Tab, act: BrowserAction) -> str:
    await element(tab, act.ref, act.selector).scroll_into_view_if_needed(timeout=act.timeout)
    return "it is in view"


async def _drag(tab: Tab, act: BrowserAction) -> str:
    await element(tab, act.start_ref).drag_to(element(tab, act.end_ref), timeout=act.timeout)
    return "dragged"


async def _select(tab: Tab, act: BrowserAction) -> str:
    if not act.values:
        raise InvalidRequest("select needs values.")
    chosen = await element(tab, act.ref, act.selector).select_option(list(act.values), timeout=act.timeout)
    return f"selected {', '.join(chosen)}"


async def _fill(tab: Tab, act: BrowserAction) -> str:
    if not act.fields:
        raise InvalidRequest("fill needs fields: [{ref, value}].")
    for each in act.fields:
        target = element(tab, each.get("ref"), each.get("selector"))
        value = each.get("value", each.get("text", ""))
        if each.get("type") in ("checkbox", "radio") or isinstance(value, bool):
            await target.set_checked(value in (True, "true", "on", "1"), timeout=act.timeout)
        else:
            await target.fill(str(value), timeout=act.timeout)
    return f"filled {len(act.fields)} field(s)"


async def _resize(tab: Tab, act: BrowserAction) -> str:
    if not act.width or not act.height:
        raise InvalidRequest("resize needs width and height.")
    await tab.page.set_viewport_size({"width": act.width, "height": act.height})
    return f"{act.width} x {act.height}"


async def _wait(tab: Tab, act: BrowserAction) -> str:
    page, limit = tab.page, act.timeout_ms or 20_000.0
    wanted = (act.time_ms, act.text, act.text_gone, act.selector, act.url, act.load_state)
    if all(each is None for each in wanted):
        raise InvalidRequest("wait needs one of timeMs, text, textGone, selector, url, loadState.")
    if act.time_ms is not None:
        await page.wait_for_timeout(min(act.time_ms, 60_000))
    if act.text is not None:
        await page.get_by_text(act.text).first.wait_for(state="visible", timeout=limit)
    if act.text_gone is not None:
        await page.get_by_text(act.text_gone).first.wait_for(state="hidden", timeout=limit)
    if act.selector is not None:
        await page.locator(act.selector).first.wait_for(timeout=limit)
    if act.url is not None:
        await page.wait_for_url(act.url, timeout=limit)
    if act.load_state is not None:
        await page.wait_for_load_state(act.load_state, timeout=limit)
    return "it is so"


async def _evaluate(tab: Tab, act: BrowserAction) -> str:
    if not act.fn:
        raise InvalidRequest("evaluate needs fn, for example () => document.title.")
    found = await (element(tab, act.ref).evaluate(act.fn) if act.ref else tab.page.evaluate(act.fn))
    return json.dumps(found, ensure_ascii=False, default=str)[:RESULT_CHARS]


async def _close(tab: Tab, act: BrowserAction) -> str:
    await tab.page.close()
    return "closed"


def _button(name: str) -> str:
    if name not in ("left", "right", "middle"):
        raise InvalidRequest("button is left, right or middle.")
    return name


def _modifier(name: str) -> str:
    if name.lower() not in _MODIFIERS:
        raise InvalidRequest("modifiers are Alt, Control, Meta, Shift, ControlOrMeta.")
    return _MODIFIERS[name.lower()]


_MODIFIERS = {"ctrl": "Control", **{name.lower(): name for name in "Alt Control Meta Shift ControlOrMeta".split()}}
_KINDS: Mapping[str, Callable[[Tab, BrowserAction], Awaitable[str]]] = {
    "click": _click,
    "clickCoords": _click_coords,
    "type": _type,
    "press": _press,
    "hover": _hover,
    "scrollIntoView": _scroll,
    "drag": _drag,
    "select": _select,
    "fill": _fill,
    "resize": _resize,
    "wait": _wait,
    "evaluate": _evaluate,
    "close": _close,
}
