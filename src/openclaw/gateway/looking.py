"""A look at what a watch names: a file, a program, an address. No model is asked for it."""

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from openclaw.core.clock import Clock
from openclaw.core.origin import Origin, joined, origin
from openclaw.cron.watch import CommandWatch, FileWatch, HttpWatch, Look, SilenceWatch, Watch, mark, name_of
from openclaw.policy.deeds import reaches_out
from openclaw.trust.wrap import sanitize_external_text

MOST_ENTRIES = 2_000
MOST_BYTES = 1_048_576
SHOWN_CHARS = 600


def watch_origins(watches: Sequence[Watch]) -> tuple[Origin, ...]:
    """Where the words of a look may come from, when that is elsewhere: programs that fetch something."""
    commands = [" ".join(watch.argv) for watch in watches if isinstance(watch, CommandWatch)]
    return joined(origin("external", f"watch {command}") for command in commands if reaches_out(command))


class Looking:
    """Looks, with the environment and the workspace of one agent."""

    def __init__(self, workspace: Path, environ: Mapping[str, str], clock: Clock, last_contact: int) -> None:
        self._workspace = workspace
        self._environ = environ
        self._clock = clock
        self._last_contact = last_contact

    async def all(self, watches: Sequence[Watch]) -> list[Look]:
        return [await self.look(watch) for watch in watches]

    async def look(self, watch: Watch) -> Look:
        match watch:
            case FileWatch():
                return await asyncio.to_thread(self._file, watch)
            case CommandWatch():
                return await self._command(watch)
            case HttpWatch():
                return await self._address(watch)
            case SilenceWatch():
                quiet = round(self._clock.now() * 1000) - self._last_contact
                over = self._last_contact > 0 and quiet >= watch.longer_than_ms
                says = f"nobody has written for {quiet // 60_000} minutes" if over else "somebody wrote recently"
                return Look(name=name_of(watch), mark=mark("silent", self._last_contact) if over else "no", says=says)

    def _file(self, watch: FileWatch) -> Look:
        path = (self._workspace / Path(watch.path).expanduser()).absolute()
        parts: list[object] = []
        try:
            if path.is_dir():
                for entry in sorted(os.scandir(path), key=lambda each: each.name)[:MOST_ENTRIES]:
                    info = entry.stat(follow_symlinks=False)
                    parts += [entry.name, info.st_size, info.st_mtime_ns]
                says = f"{watch.path}: {len(parts) // 3} entries"
            else:
                info = path.stat()
                parts = [info.st_size, info.st_mtime_ns]
                says = f"{watch.path}: {info.st_size} bytes"
        except OSError as error:
            parts, says = ["gone", error.errno], f"{watch.path}: {error.strerror}"
        return Look(name=name_of(watch), mark=mark(*parts), says=says)

    async def _command(self, watch: CommandWatch) -> Look:
        name = name_of(watch)
        try:
            child = await asyncio.create_subprocess_exec(
                *watch.argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                cwd=self._workspace,
                env=dict(self._environ),
                start_new_session=True,
            )
        except OSError as error:
            return Look(name=name, mark=mark("cannot start", error.errno), says=f"it cannot start: {error.strerror}")
        try:
            async with asyncio.timeout(watch.timeout_seconds):
                said, _ = await child.communicate()
        except TimeoutError:
            return Look(name=name, mark="", says="no answer in time")
        finally:
            if child.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, 9)
                await child.wait()
        text = said[:MOST_BYTES].decode(errors="replace")
        shown = sanitize_external_text(text.strip()[-SHOWN_CHARS:])
        return Look(name=name, mark=mark(child.returncode, text), says=f"exit code {child.returncode}\n{shown}".strip())

    async def _address(self, watch: HttpWatch) -> Look:
        import httpx2  # slow to import, and few installations watch an address

        name = name_of(watch)
        try:
            async with httpx2.AsyncClient(timeout=30.0) as client, client.stream("GET", watch.url) as response:
                body = b""
                async for piece in response.aiter_bytes():
                    body += piece
                    if len(body) >= MOST_BYTES:
                        break
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            # One failed look is no news: networks come and go.
            return Look(name=name, mark="", says=f"no answer ({type(error).__name__})")
        return Look(name=name, mark=mark(response.status_code, body), says=f"HTTP {response.status_code}, new content")
