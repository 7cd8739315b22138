"""Files that go out: every platform gets a path of a file that is there and not too large; an address is fetched."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO

from msgspec import structs

from openclaw.core.channel import MessageRefused, Outbound
from openclaw.core.deferred import mimetypes, tempfile
from openclaw.core.errors import OpenClawError
from openclaw.core.settings import Fixed, Live
from openclaw.tools.settings import ToolsSettings

log = logging.getLogger(__name__)


def guess_kind(name: str) -> str:
    """The media type of a file, by its name."""
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


def open_file(path: str) -> BinaryIO:
    """A file that is about to leave."""
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise MessageRefused(f"{path} cannot be read: {error.strerror}") from error


def read_file(path: str) -> tuple[str, str, bytes]:
    """The name, the media type and the contents of a file that is about to leave."""
    try:
        return Path(path).name, guess_kind(path), Path(path).read_bytes()
    except OSError as error:
        raise MessageRefused(f"{path} cannot be read: {error.strerror}") from error


def is_address(media: str) -> bool:
    return media.lower().startswith(("http://", "https://"))


def as_links(message: Outbound) -> Outbound:
    """The message with addresses as text instead of files.

    An answer was not weighed like a call of a tool: fetching what it names would carry words of it to any server.
    """
    links = [media for media in message.media if is_address(media)]
    if not links:
        return message
    files = tuple(media for media in message.media if media not in links)
    return structs.replace(message, text="\n\n".join(filter(None, (message.text, *links))), media=files)


def as_names(message: Outbound) -> Outbound:
    """The message with the names of its files as text, for a platform that takes none."""
    names = [f"[not sent here: {Path(media).name}]" for media in message.media]
    return structs.replace(message, text="\n\n".join(filter(None, (message.text, *names))), media=())


FindFile = Callable[[str, str], str]
"""The path of a file that an answer names, by its session's key; raises when that session may not have it."""


class OutgoingMedia:
    """Checks and fetches files for platforms."""

    def __init__(self, settings: Live[ToolsSettings], find: FindFile | None = None) -> None:
        """`find` gives the path of a file that the answer of a session names."""
        self._settings = settings
        self._find = find

    async def of_answer(self, message: Outbound, session_key: str, limit: int) -> Outbound:
        """An answer with the paths of its files; what cannot go is named in its text, which arrives all the same."""
        return await asyncio.to_thread(self._settle, message, session_key, limit)

    def _settle(self, message: Outbound, session_key: str, limit: int) -> Outbound:
        paths, lost = [], []
        for media in message.media:
            try:
                found = media if self._find is None else self._find(media, session_key)
                paths.append(check_file(found, limit))
            except OpenClawError as error:
                log.warning("an answer of %s names a file that cannot be sent: %s", session_key, error.message)
                lost.append(f"[not sent: {Path(media).name}]")
        return structs.replace(message, text="\n\n".join(filter(None, (message.text, *lost))), media=tuple(paths))

    @asynccontextmanager
    async def opened(self, message: Outbound, limit: int) -> AsyncIterator[Outbound]:
        """The message with paths; what had to be fetched is gone after the block."""
        if not message.media:
            yield message
            return
        with tempfile.TemporaryDirectory(prefix="openclaw-media-") as folder:
            paths = [await self._path(media, Path(folder), limit) for media in message.media]
            yield structs.replace(message, media=tuple(paths))

    async def _path(self, media: str, folder: Path, limit: int) -> str:
        if not is_address(media):
            return await asyncio.to_thread(check_file, media, limit)
        # Loaded when it is needed: the guarded connections bring the packages of the web tools with them.
        from openclaw.channels.media.fetch import fetch_file

        return str(await fetch_file(media, folder, limit, self._settings.current.web.fetch))


PUBLIC_MEDIA = OutgoingMedia(Fixed(ToolsSettings()))
"""Fetches from public addresses only."""


def check_file(media: str, limit: int) -> str:
    path = Path(media.removeprefix("file://")).expanduser()
    try:
        size = path.stat().st_size if path.is_file() else -1
    except (OSError, ValueError) as error:
        raise MessageRefused(f"{media} cannot be read") from error
    if size < 0:
        raise MessageRefused(f"there is no file {media}")
    if size == 0:
        raise MessageRefused(f"{media} is empty")
    if size > limit:
        raise MessageRefused(f"{media} has {size:,} bytes; {limit:,} is the most")
    return str(path)
