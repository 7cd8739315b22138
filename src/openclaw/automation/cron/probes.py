"""Checks what a watch names: a file, a program, an address, a mailbox. No model is asked."""

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, tzinfo
from operator import attrgetter
from pathlib import Path

from msgspec import structs

from openclaw.automation.cron.watch import (
    CommandWatch,
    DueWatch,
    FileWatch,
    HttpWatch,
    MailWatch,
    SilenceWatch,
    Watch,
    WatchResult,
    changed_results,
    due_lines,
    make_fingerprint,
    watch_name,
)
from openclaw.core.clock import Clock, millis
from openclaw.core.deferred import imaplib, ssl
from openclaw.core.text import Origin, make_origin, merge_origins
from openclaw.process.child import ask_program
from openclaw.security.effects.reach import may_fetch
from openclaw.security.external import sanitize_external_text

MOST_ENTRIES = 2_000
MOST_BYTES = 1_048_576
SHOWN_CHARS = 600
MOST_DUE = 50
NETWORK_SECONDS = 30.0


def watch_origins(watches: Sequence[Watch]) -> tuple[Origin, ...]:
    """Labels for the text of a probe, when it may come from elsewhere: programs that fetch something."""
    commands = [" ".join(watch.argv) for watch in watches if isinstance(watch, CommandWatch)]
    return merge_origins(make_origin("external", f"watch {command}") for command in commands if may_fetch(command))


class WatchProbes:
    """Runs watches with the environment and the workspace of one agent."""

    def __init__(
        self, workspace: Path, environ: Mapping[str, str], clock: Clock, last_contact: int, zone: tzinfo = UTC
    ) -> None:
        self._workspace = workspace
        self._environ = environ
        self._clock = clock
        self._last_contact = last_contact
        self._zone = zone

    async def changes(self, watches: Sequence[Watch], before: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
        """What is seen now, by watch, and the lines for the model about what differs from `before`."""
        looks = [await self.look(watch) for watch in watches]
        news = [f"Changed: {look.name}. {look.says}" for look in changed_results(looks, before)]
        return {**before, **{look.name: look.mark for look in looks if look.mark}}, news

    async def look(self, watch: Watch) -> WatchResult:
        match watch:
            case FileWatch():
                found = await asyncio.to_thread(self._file, watch)
            case CommandWatch():
                found = await self._command(watch)
            case HttpWatch():
                found = await _address(watch)
            case SilenceWatch():
                found = self._silence(watch)
            case MailWatch(host=""):
                found = await asyncio.to_thread(self._maildir, watch)
            case MailWatch():
                found = await asyncio.to_thread(self._mailbox, watch)
            case DueWatch():
                found = await asyncio.to_thread(self._due)
        return structs.replace(found, name=watch_name(watch))

    def _silence(self, watch: SilenceWatch) -> WatchResult:
        quiet = millis(self._clock) - self._last_contact
        if self._last_contact <= 0 or quiet < watch.longer_than_ms:
            return WatchResult("no", "somebody wrote recently", news=False)
        says = f"nobody has written for {quiet // 60_000} minutes"
        return WatchResult(make_fingerprint("silent", self._last_contact), says)

    def _absolute(self, path: str) -> Path:
        return (self._workspace / Path(path).expanduser()).absolute()

    def _file(self, watch: FileWatch) -> WatchResult:
        path = self._absolute(watch.path)
        parts: list[object] = []
        try:
            if path.is_dir():
                for entry in sorted(os.scandir(path), key=attrgetter("name"))[:MOST_ENTRIES]:
                    info = entry.stat(follow_symlinks=False)
                    parts += [entry.name, info.st_size, info.st_mtime_ns]
                says = f"{watch.path}: {len(parts) // 3} entries"
            else:
                info = path.stat()
                parts = [info.st_size, info.st_mtime_ns]
                says = f"{watch.path}: {info.st_size} bytes"
        except OSError as error:
            parts, says = ["gone", error.errno], f"{watch.path}: {error.strerror}"
        return WatchResult(make_fingerprint(*parts), says)

    def _maildir(self, watch: MailWatch) -> WatchResult:
        """Reports letters whose names are new; reading one moves it and renames it behind the colon."""
        path = self._absolute(watch.path)
        try:
            waiting = sum(1 for _ in os.scandir(path / "new"))
            letters = [entry for part in ("new", "cur") for entry in os.scandir(path / part)]
        except OSError as error:
            return WatchResult("", f"{watch.path} is no Maildir: {error.strerror}")
        latest = max((entry.name.partition(":")[0] for entry in letters), default="")
        return WatchResult(make_fingerprint(latest), f"{waiting} new of {len(letters)} letters", news=waiting > 0)

    def _mailbox(self, watch: MailWatch) -> WatchResult:
        """Reports letters with a higher UID than any before; reading one does not change the next UID."""
        password = self._environ.get(watch.password_env, "")
        if not password:
            return WatchResult("", f"{watch.password_env} is not set")
        try:
            with _connect(watch) as server:
                server.login(watch.user, password)
                _, found = server.status(f'"{watch.mailbox}"', "(UIDNEXT UNSEEN)")
        except (OSError, imaplib.IMAP4.error) as error:
            # One failed probe is no change; the error's own text may contain the password.
            return WatchResult("", f"no answer from {watch.host} ({type(error).__name__})")
        text = b" ".join(part for part in found if isinstance(part, bytes)).decode(errors="replace")
        numbers = dict(re.findall(r"(UIDNEXT|UNSEEN) (\d+)", text))
        if len(numbers) < 2:
            return WatchResult("", f"{watch.host} has no mailbox {watch.mailbox}")
        unread = int(numbers["UNSEEN"])
        return WatchResult(make_fingerprint(int(numbers["UIDNEXT"])), f"{unread} unread letters", news=unread > 0)

    def _due(self) -> WatchResult:
        now, found = millis(self._clock), []
        for path in [self._workspace / "MEMORY.md", *sorted(self._workspace.glob("memory/*.md"))[-MOST_ENTRIES:]]:
            try:
                with path.open("rb") as file:
                    text = file.read(MOST_BYTES).decode(errors="replace")
            except OSError:
                continue
            found += due_lines(text, path.relative_to(self._workspace).as_posix(), self._zone)
        ripe = sorted((each for each in found if each.at <= now), key=attrgetter("at"), reverse=True)[:MOST_DUE]
        says = "\n".join(f"{each.where}: {each.text}" for each in ripe)
        marks = ",".join(sorted(make_fingerprint(each.text, each.at)[:12] for each in ripe)) or "none"
        return WatchResult(marks, says or "nothing is due", news=bool(ripe), adds=True)

    async def _command(self, watch: CommandWatch) -> WatchResult:
        try:
            said = await ask_program(
                watch.argv,
                env=self._environ,
                seconds=watch.timeout_seconds,
                cwd=self._workspace,
                merged=True,
            )
        except OSError as error:
            return WatchResult(make_fingerprint("cannot start", error.errno), f"it cannot start: {error.strerror}")
        if said.why == "late":
            return WatchResult("", "no answer in time")
        text = said.out[:MOST_BYTES].decode(errors="replace")
        shown = sanitize_external_text(text.strip()[-SHOWN_CHARS:])
        ended = "stopped, it prints too much" if said.why else f"exit code {said.code}"
        return WatchResult(make_fingerprint(said.code, text), f"{ended}\n{shown}".strip())


async def _address(watch: HttpWatch) -> WatchResult:
    import httpx2  # slow to import, and few installations watch an address

    try:
        async with httpx2.AsyncClient(timeout=NETWORK_SECONDS) as client, client.stream("GET", watch.url) as response:
            body = b""
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) >= MOST_BYTES:
                    break
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        # One failed probe is no change: networks come and go.
        return WatchResult("", f"no answer ({type(error).__name__})")
    return WatchResult(make_fingerprint(response.status_code, body), f"HTTP {response.status_code}, new content")


def _connect(watch: MailWatch) -> "imaplib.IMAP4":
    if not watch.tls:
        return imaplib.IMAP4(watch.host, watch.port, timeout=NETWORK_SECONDS)
    context = ssl.create_default_context()
    return imaplib.IMAP4_SSL(watch.host, watch.port, ssl_context=context, timeout=NETWORK_SECONDS)
