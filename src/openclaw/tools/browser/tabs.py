"""The tabs of a browser: who is who, what each of them said, and the files that came out of them."""

import asyncio
import re
from collections import deque
from pathlib import Path
from typing import Any

from openclaw.core.errors import InvalidRequest, NotFound

REMEMBERED = 200
MOST_DOWNLOAD = 500 * 1024 * 1024
_UNSAFE = re.compile(r"[^\w.() -]+")


class Tab:
    """One page and what was heard of it."""

    def __init__(self, name: str, page: Any, downloads: "Downloads") -> None:
        self.id = name
        self.label = ""
        self.page = page
        self.console: deque[dict[str, str]] = deque(maxlen=REMEMBERED)
        self.errors: deque[str] = deque(maxlen=REMEMBERED)
        self.requests: deque[dict[str, Any]] = deque(maxlen=REMEMBERED)
        self.dialogs: deque[str] = deque(maxlen=10)
        self.answer: tuple[bool, str | None] | None = None
        """What the next question of the page gets; without it, questions are declined."""
        page.on("console", lambda said: self.console.append({"type": said.type, "text": said.text[:1000]}))
        page.on("pageerror", lambda error: self.errors.append(str(error)[:1000]))
        page.on("requestfailed", lambda request: self._request(request, "failed"))
        page.on("response", lambda response: self._request(response.request, response.status))
        page.on("dialog", self._dialog)
        page.on("download", downloads.take)

    def _request(self, request: Any, status: Any) -> None:
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
    """All tabs, each with a name that stays."""

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
        page.on("close", lambda page: self._closed(tab))
        return tab

    def _closed(self, tab: Tab) -> None:
        self._all.pop(tab.id, None)
        if self.current == tab.id:
            self.current = next(reversed(self._all), "")

    def list(self) -> list[Tab]:
        return list(self._all.values())

    async def get(self, wanted: str | None) -> Tab:
        """The tab called `wanted`, by id or label; the current one when nobody is named."""
        if not wanted:
            if not self._all:
                self.add(await self._context.new_page())
            return self._all[self.current]
        for tab in self._all.values():
            if wanted in (tab.id, tab.label):
                return tab
        raise NotFound(f"There is no tab {wanted!r}: action tabs lists them.")

    async def open(self) -> Tab:
        # The first tab of a fresh browser is empty and as good as a new one.
        if len(self._all) == 1 and self._all[self.current].page.url == "about:blank":
            return self._all[self.current]
        return self.add(await self._context.new_page())


class Downloads:
    """Files a page handed out, in one directory and under harmless names."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.done: list[Path] = []
        self.failed = ""
        self._moved = asyncio.Event()

    def path_for(self, name: str) -> Path:
        """A new path in the directory; what a page calls a file decides nothing else."""
        plain = _UNSAFE.sub("_", Path(name.replace("\\", "/")).name).lstrip("._ ")[:120] or "file"
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / plain
        stem, suffix, count = path.stem, path.suffix, 1
        while path.exists():
            count += 1
            path = self.directory / f"{stem}-{count}{suffix}"
        return path

    async def take(self, download: Any) -> None:
        from playwright.async_api import Error

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
