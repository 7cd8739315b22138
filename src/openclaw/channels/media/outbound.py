"""Files that go out: every platform gets a path of a file that is there and not too large; an address is fetched."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import structs

from openclaw.core.channel import MessageRefused, Outbound
from openclaw.core.settings import Fixed, Live
from openclaw.tools.settings import ToolsSettings


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


class OutgoingMedia:
    """Checks and fetches files for platforms."""

    def __init__(self, settings: Live[ToolsSettings]) -> None:
        self._settings = settings

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
