"""The worker process of one browser: runs Playwright and Chromium behind a proxy that blocks private addresses."""

import asyncio
import base64
import json
import re
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from playwright.async_api import Error, async_playwright

from openclaw.core.errors import InvalidRequest, OpenClawError
from openclaw.process.group import descendants, kill
from openclaw.process.stdio_rpc import (
    RequestLoop,
    WorkerMessage,
    WorkerOutput,
    WorkerRequest,
    run_worker,
)
from openclaw.tools.browser.actions import Downloads, Tab, Tabs, element, perform
from openclaw.tools.browser.schema import BrowserAction, BrowserStart
from openclaw.tools.web_guard import AddressRules, address_rules, check_addresses, check_host, parse_url

# The proxy.

HEAD_BYTES = 64 * 1024
CONNECT_SECONDS = 20.0
REFUSED = b"HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"


class Proxy:
    """Forwards connections to permitted addresses; remembers what it refused."""

    def __init__(self, rules: AddressRules) -> None:
        self._rules = rules
        self.refused: deque[str] = deque(maxlen=50)

    async def open(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=HEAD_BYTES)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), CONNECT_SECONDS)
            await self._pass_on(head, reader, writer)
        except OpenClawError as error:
            self.refused.append(error.message)
            with suppress(ConnectionError):
                writer.write(REFUSED + error.message.encode())
                await writer.drain()
        except (TimeoutError, ConnectionError, OSError, ValueError, asyncio.IncompleteReadError):
            pass  # the browser sees a closed connection and reports it
        finally:
            with suppress(ConnectionError, OSError):
                writer.close()

    async def _pass_on(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, _, rest = head.decode("latin-1").partition("\r\n")
        method, target, _ = first.split(" ", 2)
        if method == "CONNECT":
            url = parse_url(f"https://{target}/")
            there, out = await self._connect(url.hostname or "", url.port or 443)
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await _both_ways(reader, writer, there, out, None)
            return
        url = parse_url(target)
        there, out = await self._connect(url.hostname or "", url.port or 80)
        lines = [line for line in rest.split("\r\n") if line and not line.lower().startswith(("proxy-", "connection:"))]
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        # One request per connection: a second one might be for another host.
        out.write("\r\n".join([f"{method} {path} HTTP/1.1", *lines, "Connection: close", "", ""]).encode("latin-1"))
        await _both_ways(reader, writer, there, out, _length(lines))

    async def _connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        check_host(host, self._rules)
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=1)
        addresses = check_addresses(host, list(dict.fromkeys(str(entry[4][0]) for entry in found)), self._rules)
        async with asyncio.timeout(CONNECT_SECONDS):
            for address in addresses[:-1]:
                with suppress(OSError):
                    return await asyncio.open_connection(address, port)
            return await asyncio.open_connection(addresses[-1], port)


def _length(lines: list[str]) -> int:
    for line in lines:
        name, _, value = line.partition(":")
        if name.lower() == "content-length":
            return int(value)
        if name.lower() == "transfer-encoding":
            raise ValueError("a body without a length")
    return 0


async def _both_ways(
    here: asyncio.StreamReader,
    back: asyncio.StreamWriter,
    there: asyncio.StreamReader,
    out: asyncio.StreamWriter,
    most: int | None,
) -> None:
    """Copies bytes both ways until the far side ends, at most `most` of them outward."""
    outward = asyncio.create_task(_carry(here, out, most))
    try:
        await _carry(there, back, None)
    finally:
        outward.cancel()
        await asyncio.gather(outward, return_exceptions=True)
        with suppress(ConnectionError, OSError):
            out.close()


async def _carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter, most: int | None) -> None:
    with suppress(ConnectionError, OSError):
        while most is None or most > 0:
            part = await source.read(65_536 if most is None else min(most, 65_536))
            if not part:
                break
            most = None if most is None else most - len(part)
            sink.write(part)
            await sink.drain()
        if most is None and sink.can_write_eof():
            sink.write_eof()


# The browser.

SNAPSHOT_CHARS = 20_000
TEXT_CHARS = 20_000
PAGE_MS = 30_000.0
MOST_IMAGE = 4_000_000
TALLEST = 8_000
_INTERACTIVE = re.compile(
    r"^\s*- (?:button|link|textbox|searchbox|checkbox|radio|combobox|listbox|option|menuitem\w*|tab|switch|slider|"
    r"spinbutton|treeitem|heading)\b"
)
_CALL_LOG = re.compile(r"\n(?:Call log|=+ logs).*\Z", re.DOTALL)


class Browser:
    """Answers the tool's requests."""

    def __init__(self, start: BrowserStart, context: Any, proxy: Proxy) -> None:
        self._start = start
        self._proxy = proxy
        self.downloads = Downloads(Path(start.downloads))
        self.tabs = Tabs(context, self.downloads)

    async def answer(self, ask: WorkerRequest) -> WorkerMessage:
        body = ask.body
        try:
            return WorkerMessage(id=ask.id, body=await self._do(body["action"], body))
        except OpenClawError as error:
            return WorkerMessage(id=ask.id, error=error.message)
        except Error as error:
            over = "has been closed" in error.message and not self.tabs.list()
            return WorkerMessage(id=ask.id, error=_plain(error.message), over=over)
        except (msgspec.ValidationError, ValueError) as error:
            return WorkerMessage(id=ask.id, error=str(error)[:500])

    async def _do(self, action: str, body: dict[str, Any]) -> dict[str, Any]:
        doing: Callable[..., Awaitable[dict[str, Any]]] | None = getattr(self, f"_{action}", None)
        if doing is None:
            raise InvalidRequest(f"{action} is not something this browser can do")
        if action in ("tabs", "open", "waitfordownload", "act"):
            return await doing(body)
        return await doing(await self.tabs.get(body.get("targetId")), body)

    async def _tabs(self, body: dict[str, Any]) -> dict[str, Any]:
        rows = [
            {
                "targetId": tab.id,
                "label": tab.label,
                "title": (await tab.page.title())[:200],
                "url": tab.page.url[:500],
                "active": tab.id == self.tabs.current,
            }
            for tab in self.tabs.list()
        ]
        return _reply(json.dumps(rows, indent=2, ensure_ascii=False))

    async def _open(self, body: dict[str, Any]) -> dict[str, Any]:
        tab = await self.tabs.open()
        tab.label = str(body.get("label") or "")[:60]
        return await self._navigate(tab, body)

    async def _navigate(self, tab: Tab, body: dict[str, Any]) -> dict[str, Any]:
        url = str(body.get("targetUrl") or body.get("url") or "about:blank").strip()
        self.tabs.current = tab.id
        if url != "about:blank":
            parse_url(url)
        refused = len(self._proxy.refused)
        already = len(self.downloads.done)
        try:
            answer = await tab.page.goto(url, wait_until="domcontentloaded", timeout=body.get("timeoutMs") or PAGE_MS)
        except Error as error:
            if "Download is starting" in error.message:
                return self._file(await self.downloads.next(already, PAGE_MS / 1000))
            if len(self._proxy.refused) > refused:
                raise InvalidRequest(self._proxy.refused[-1]) from error
            raise
        if answer is not None and answer.status == 403 and len(self._proxy.refused) > refused:
            await tab.page.goto("about:blank")
            raise InvalidRequest(self._proxy.refused[-1])
        status = f"{answer.status}" if answer is not None else "no answer"
        return _reply(f"URL: {tab.page.url}\nTitle: {await tab.page.title()}", targetId=tab.id, status=status)

    async def _focus(self, tab: Tab, body: dict[str, Any]) -> dict[str, Any]:
        await tab.page.bring_to_front()
        self.tabs.current = tab.id
        return _reply(f"URL: {tab.page.url}", targetId=tab.id)

    async def _close(self, tab: Tab, body: dict[str, Any]) -> dict[str, Any]:
        await tab.page.close()
        return _reply("", targetId=tab.id, status="closed")

    async def _snapshot(self, tab: Tab, body: dict[str, Any]) -> dict[str, Any]:
        efficient = body.get("mode") == "efficient"
        depth = body.get("depth") or (6 if efficient else None)
        mode = "default" if body.get("snapshotFormat") == "aria" else "ai"
        root = tab.page.locator(body["selector"]).first if body.get("selector") else tab.page
        if body.get("frame"):
            root = tab.page.frame_locator(body["frame"]).locator("body")
        text = await root.aria_snapshot(mode=mode, depth=depth, timeout=body.get("timeoutMs") or PAGE_MS)
        if body.get("interactive") or efficient:
            text = "\n".join(line for line in text.splitlines() if _INTERACTIVE.match(line))
        most = body.get("maxChars") or SNAPSHOT_CHARS
        cut = "\n[cut: ask for more with maxChars, or less with interactive]" if len(text) > most else ""
        title = await tab.page.title()
        return _reply(f"URL: {tab.page.url}\nTitle: {title}\n\n{text[:most]}{cut}", targetId=tab.id, **self._news(tab))

    async def _text(self, tab: Tab, body: dict[str, Any]) -> dict[str, Any]:
        where = element(tab, body.get("ref"), body.get("selector") or "body")
        text = await where.inner_text(timeout=body.get("timeoutMs") or PAGE_MS)
        return _reply(text[: body.get("maxChars") or TEXT_CHARS], targetId=tab.id)

    async def _screenshot(self, tab: Tab, body: dict[str, Any]) -> dict[str, Any]:
        kind = body.get("type") or "png"
        given: dict[str, Any] = {"type": kind, "timeout": body.get("timeoutMs") or PAGE_MS, "animations": "disabled"}
        if body.get("ref") or body.get("element") or body.get("selector"):
            chosen = element(tab, body.get("ref"), body.get("element") or body.get("selector"))
            data = await chosen.screenshot(**given)
        else:
            if body.get("fullPage"):
                size = await tab.page.evaluate("() => [document.body.scrollWidth, document.body.scrollHeight]")
                given["full_page"] = True
                given["clip"] = {"x": 0, "y": 0, "width": min(size[0], 4000), "height": min(size[1], TALLEST)}
            data = await tab.page.screenshot(**given)
        if len(data) > MOST_IMAGE and kind == "png":
            kind = "jpeg"
            data = await tab.page.screenshot(type="jpeg", quality=60)
        files = []
        if body.get("path"):
            path = self.downloads.path_for(str(body["path"]))
            path.write_bytes(data)
            files = [str(path)]
        image = {"data": base64.b64encode(data).decode(), "mime_type": f"image/{kind}"}
        return {**_reply(f"URL: {tab.page.url}", targetId=tab.id), "image": image, "files": files}

    async def _pdf(self, tab: Tab, body: dict[str, Any]) -> dict[str, Any]:
        path = self.downloads.path_for(str(body.get("path") or "page.pdf"))
        await tab.page.pdf(path=path)
        return self._file(path)

    async def _console(self, tab: Tab, body: dict[str, Any]) -> dict[str, Any]:
        wanted = [each for each in tab.console if not body.get("level") or each["type"] == body["level"]]
        if body.get("clear"):
            tab.console.clear()
        return _reply("\n".join(f"{each['type']}: {each['text']}" for each in wanted[-(body.get("limit") or 50) :]))

    async def _errors(self, tab: Tab, body: dict[str, Any]) -> dict[str, Any]:
        found = list(tab.errors)[-(body.get("limit") or 50) :]
        if body.get("clear"):
            tab.errors.clear()
        return _reply("\n".join(found))

    async def _requests(self, tab: Tab, body: dict[str, Any]) -> dict[str, Any]:
        wanted = [each for each in tab.requests if (body.get("filter") or "") in each["url"]]
        if body.get("clear"):
            tab.requests.clear()
        lines = [
            f"{each['status']} {each['method']} {each['type']} {each['url']}"
            for each in wanted[-(body.get("limit") or 50) :]
        ]
        return _reply("\n".join([*lines, *(f"refused: {why}" for why in self._proxy.refused)]))

    async def _dialog(self, tab: Tab, body: dict[str, Any]) -> dict[str, Any]:
        tab.answer = (bool(body.get("accept")), body.get("promptText"))
        return _reply("", targetId=tab.id, status="the next question of the page gets this answer", **self._news(tab))

    async def _emulate(self, tab: Tab, body: dict[str, Any]) -> dict[str, Any]:
        scheme = body.get("colorScheme")
        if not scheme:
            raise InvalidRequest("Only colorScheme can be emulated; for a size use act with kind resize.")
        await tab.page.emulate_media(color_scheme="null" if scheme == "none" else scheme)
        return _reply("", targetId=tab.id, status=f"colours: {scheme}")

    async def _upload(self, tab: Tab, body: dict[str, Any]) -> dict[str, Any]:
        target = element(tab, body.get("inputRef") or body.get("ref"), body.get("element") or body.get("selector"))
        await target.set_input_files(list(body["paths"]), timeout=body.get("timeoutMs") or PAGE_MS)
        return _reply("", targetId=tab.id, status=f"{len(body['paths'])} file(s) chosen", **self._news(tab))

    async def _download(self, tab: Tab, body: dict[str, Any]) -> dict[str, Any]:
        already = len(self.downloads.done)
        await element(tab, body.get("ref"), body.get("selector")).click(timeout=PAGE_MS)
        return self._file(await self.downloads.next(already, (body.get("timeoutMs") or PAGE_MS) / 1000))

    async def _waitfordownload(self, body: dict[str, Any]) -> dict[str, Any]:
        already = len(self.downloads.done)
        return self._file(await self.downloads.next(already, (body.get("timeoutMs") or PAGE_MS) / 1000))

    async def _act(self, body: dict[str, Any]) -> dict[str, Any]:
        act = msgspec.convert(body["act"], BrowserAction, strict=False)
        tab = await self.tabs.get(act.target_id)
        self.tabs.current = tab.id
        already, known = len(self.downloads.done), {each.id for each in self.tabs.list()}
        lines: list[str] = []
        for each in self._steps(act):
            where = tab if each.target_id in (None, tab.id) else await self.tabs.get(each.target_id)
            try:
                lines.append(await perform(where, each, evaluate=self._start.settings.evaluate_enabled))
            except OpenClawError as error:
                if act.kind != "batch" or act.stop_on_error:
                    raise
                lines.append(f"failed: {error.message}")
        await asyncio.sleep(0.05)  # new tabs and downloads are announced shortly after the action
        fresh = [each.id for each in self.tabs.list() if each.id not in known]
        address = tab.page.url if tab in self.tabs.list() else "(closed)"
        files = [str(path) for path in self.downloads.done[already:]]
        news = {**self._news(tab), **({"newTabs": fresh} if fresh else {})}
        return {**_reply(f"URL: {address}\n" + "\n".join(lines), targetId=tab.id, **news), "files": files}

    def _steps(self, act: BrowserAction) -> list[BrowserAction]:
        if act.kind != "batch":
            return [act]
        if not act.actions:
            raise InvalidRequest("batch needs actions: a list of acts.")
        steps = [msgspec.convert(each, BrowserAction, strict=False) for each in act.actions[:50]]
        if any(step.kind == "batch" for step in steps):
            raise InvalidRequest("A batch holds no batches.")
        return steps

    def _news(self, tab: Tab) -> dict[str, Any]:
        """Dialogs the page opened meanwhile; they were answered, so that nothing hangs."""
        said = list(tab.dialogs)
        tab.dialogs.clear()
        return {"dialogs": said} if said else {}

    def _file(self, path: Path) -> dict[str, Any]:
        return {**_reply("", status=f"{path.stat().st_size} bytes"), "files": [str(path)]}


def _reply(text: str, **about: Any) -> dict[str, Any]:
    """`text` comes from a page; `about` is our own information, except for the texts of dialogs."""
    return {"text": text, "about": about}


def _plain(message: str) -> str:
    text = _CALL_LOG.sub("", message).strip()
    if "aria-ref" in message:
        text += " The ref may be of an older page: take a new snapshot."
    return text[:600]


async def serve_browser(body: Any, questions: "asyncio.Queue[WorkerRequest | None]", output: WorkerOutput) -> None:
    """Starts the browser, reports that it is ready, and answers requests until the input ends."""
    start = msgspec.convert(body, BrowserStart)
    settings = start.settings
    proxy = Proxy(address_rules(settings.ssrf_policy, "browser.ssrfPolicy"))
    server = await proxy.open()
    port = server.sockets[0].getsockname()[1]
    try:
        async with async_playwright() as playwright:
            context = await playwright.chromium.launch_persistent_context(
                start.profile,
                executable_path=start.executable,
                headless=settings.headless,
                chromium_sandbox=not settings.no_sandbox,
                proxy={"server": f"http://127.0.0.1:{port}", "bypass": "<-loopback>"},
                accept_downloads=True,
                downloads_path=Path(start.downloads) / ".partial",
                viewport={"width": 1280, "height": 800},
                permissions=[],
                args=[
                    "--disable-quic",
                    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
                    "--disable-features=WebRtcHideLocalIpsWithMdns,AsyncDns,DnsOverHttps",
                    *settings.extra_args,
                ],
            )
            browser = Browser(start, context, proxy)
            output.say(WorkerMessage(ready=True))
            try:
                await RequestLoop(output, browser.answer).serve(questions)
            finally:
                leaders = descendants()
                await context.close()
                kill(leaders)
    except Error as error:
        output.say(WorkerMessage(error=f"it did not start: {_plain(error.message)}"))
    finally:
        server.close()


if __name__ == "__main__":
    run_worker(serve_browser)
