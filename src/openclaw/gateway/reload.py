"""Watches the configuration file and its includes; a broken edit is reported and skipped.

The files are polled twice a second, which needs no thread and works on every file system.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from openclaw.config import tree
from openclaw.config.load import LoadedConfig, load
from openclaw.config.tree import parse_path
from openclaw.core.errors import ConfigError
from openclaw.process.environment import Home

Kind = Literal["none", "hot", "restart"]

_ORDER: tuple[Kind, ...] = ("none", "hot", "restart")
_HOT = (
    "agents models auth bindings broadcast session messages tools skills logging ui tts talk hooks cron plugins"
    " channels acp browser memory commands security approvals env secrets mcp diagnostics budget record"
)
RULES: dict[tuple[str, ...], Kind] = {
    **{(section,): "hot" for section in _HOT.split()},
    ("$schema",): "none",
    ("delivery",): "hot",
    ("meta",): "none",
    ("wizard",): "none",
    ("gateway",): "restart",
    ("store",): "restart",
    ("gateway", "mode"): "none",
    ("plugins", "slots"): "restart",
    ("gateway", "reload"): "none",
    ("gateway", "remote"): "none",
    ("gateway", "auth", "token"): "hot",
    ("gateway", "auth", "password"): "hot",
    ("gateway", "auth", "trustedProxy"): "hot",
    ("gateway", "auth", "rateLimit"): "hot",
    ("gateway", "trustedProxies"): "hot",
    ("gateway", "controlUi"): "hot",
    ("gateway", "nodes"): "hot",
}
"""By the longest prefix of a path; a section that is not listed is not ours, and needs nothing."""


def kind_of(path: str) -> Kind:
    """What a change at `path` needs."""
    parts = tuple(str(part) for part in parse_path(path)) if path not in ("", ".") else ()
    if parts[:1] == ("agents",) and "memorySearch" in parts:  # of all agents or of one; its index is open and watched
        return "restart"
    for length in range(len(parts), 0, -1):
        found = RULES.get(parts[:length])
        if found is not None:
            return found
    return "none" if parts else "restart"


def classify(changed: Iterable[str]) -> Kind:
    """What all the changes together need."""
    return max((kind_of(path) for path in changed), key=_ORDER.index, default="none")


POLL_SECONDS = 0.5
SETTLE_SECONDS = 0.3
RETRY_POLLS = 10
"""After a broken edit the cause may be in a file we do not know of: it is read again now and then."""

log = logging.getLogger("openclaw.gateway.reload")

Signature = tuple[int, int, int] | None


class Reload(Struct, frozen=True, kw_only=True):
    """A change that can be applied."""

    changed: tuple[str, ...]
    kind: Kind
    loaded: LoadedConfig


class Reloader:
    """Holds the configuration in use, and detects changes of the file."""

    def __init__(self, home: Home, environ: Mapping[str, str]) -> None:
        # Before reading: a change in between is then seen later, not missed.
        before = {path: _signature(path) for path in _always(home)}
        self.loaded = load(home, environ)
        self.trouble = "\n".join(map(str, self.loaded.issues))
        """Why the file cannot be used at present; empty when it can."""
        self._home = home
        self._environ = environ
        self._seen = {**self._look(), **before}
        self._one_at_a_time = asyncio.Lock()

    async def watch(self, settle: float = SETTLE_SECONDS) -> AsyncGenerator[Reload, None]:
        """Yields every change since the configuration was read, once the file has settled."""
        polls = 0
        while True:
            now = self._look()
            if now != self._seen or (self.trouble and polls % RETRY_POLLS == RETRY_POLLS - 1):
                settled = await self._settled(now, settle)
                found = await self.check()
                self._seen = {**self._look(), **{path: settled[path] for path in self._files() if path in settled}}
                if found is not None:
                    yield found
            await asyncio.sleep(POLL_SECONDS)
            polls += 1

    async def check(self) -> Reload | None:
        """Reads the file now; None when nothing changed or it cannot be used."""
        async with self._one_at_a_time:
            # In a thread: a secret may come from a program.
            read = await asyncio.to_thread(self._read)
            if isinstance(read, str):
                if read != self.trouble:
                    self.trouble = read
                    log.warning("config reload skipped (invalid config): %s", read)
                return None
            self.trouble = ""
            changed = tree.changed_paths(self.loaded.raw, read.raw)
            if not changed and read.config != self.loaded.config:
                changed = ("env",)
            self.loaded = read
            return Reload(changed=changed, kind=classify(changed), loaded=read) if changed else None

    def revert(self, loaded: LoadedConfig) -> None:
        """A change was not applied: the next edit, which may repair it, is compared with `loaded`, still in force."""
        self.loaded = loaded

    def _read(self) -> LoadedConfig | str:
        """The present configuration, or why it cannot be used."""
        try:
            loaded = load(self._home, self._environ)
        except ConfigError as error:
            return error.message
        if loaded.used_last_good:
            return "\n".join(map(str, loaded.issues))
        if self.loaded.exists and not loaded.exists:
            return f"{self._home.config} is gone; it is used again when it is back"
        return loaded

    async def _settled(self, now: dict[Path, Signature], settle: float) -> dict[Path, Signature]:
        """The files once they have not changed for a while: editors write, rename and write again."""
        while True:
            await asyncio.sleep(settle)
            again = self._look()
            if again == now:
                return now
            now = again

    def _files(self) -> tuple[Path, ...]:
        return (*_always(self._home), *self.loaded.files)

    def _look(self) -> dict[Path, Signature]:
        return {path: _signature(path) for path in self._files()}


def _always(home: Home) -> tuple[Path, Path]:
    return home.config, home.state / ".env"


def _signature(path: Path) -> Signature:
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_mtime_ns, about.st_size, about.st_ino
