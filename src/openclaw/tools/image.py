"""The `image` tool: loads images for a model that sees, or has one describe them."""

import base64
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from threading import Event
from typing import Annotated

from msgspec import Struct, structs

from openclaw.core.errors import InvalidRequest
from openclaw.core.messages import Image, Text
from openclaw.core.tool import Output, ToolContext, param, tool_spec
from openclaw.process.tasks import run_in_thread
from openclaw.tools.base import FileTool
from openclaw.tools.files import MAX_IMAGE_BYTES, image_type, to_png
from openclaw.tools.paths import format_size, open_regular, quote_path, resolve_path

MOST_IMAGES = 20
DEFAULT_PROMPT = "Describe the image."

DescribeImages = Callable[[str, str, Sequence[Image]], Awaitable[str]]
"""Asks a vision model: agent, prompt, images -> its description."""


class ImageArgs(Struct, frozen=True, rename="camel"):
    prompt: Annotated[str, param("What to find out about the images")] = ""
    image: Annotated[str, param("Path of an image")] = ""
    images: Annotated[tuple[str, ...], param("Paths of several images")] = ()
    max_bytes_mb: Annotated[float | None, param("Most megabytes of one image", exclusiveMinimum=0)] = None
    max_images: Annotated[int, param("Most images, 20 at the utmost", minimum=1)] = MOST_IMAGES


class ImageTool(FileTool[ImageArgs]):
    """The `image` tool."""

    args_type = ImageArgs
    spec = tool_spec(
        "image",
        "Image",
        "look at images",
        "Look at one or more image files. If you can see images they are shown to you; otherwise a model that "
        "can answers your prompt about them.",
        ImageArgs,
        aliases={"path": "image", "paths": "images", "max_bytes_mb": "maxBytesMb", "max_images": "maxImages"},
    )

    def __init__(self, look: DescribeImages, *, workspace_only: bool = False) -> None:
        super().__init__(workspace_only=workspace_only)
        self._look = look

    async def run(self, wanted: ImageArgs, context: ToolContext) -> Output:
        paths = list(dict.fromkeys(path for path in (wanted.image, *wanted.images) if path.strip()))
        if not paths:
            raise InvalidRequest("No image is named: give image or images.")
        most = max(1, min(wanted.max_images, MOST_IMAGES))
        if len(paths) > most:
            raise InvalidRequest(f"{len(paths)} images are too many: at most {most} in a call.")
        limit = MAX_IMAGE_BYTES
        if wanted.max_bytes_mb is not None:
            limit = min(limit, round(wanted.max_bytes_mb * 1024 * 1024))
        images = [await run_in_thread(partial(self._load, path, context, limit)) for path in paths]
        places = tuple(str(resolve_path(path, context.workspace)) for path in paths)
        if context.accepts_images:
            note = f"{len(images)} image(s): {', '.join(quote_path(path) for path in paths)}."
            return Output(content=(Text(note), *images), details={"images": paths}, touched=places)
        said = await self._look(context.agent_id, wanted.prompt.strip() or DEFAULT_PROMPT, images)
        return structs.replace(Output.of(said, images=paths), touched=places)

    def _load(self, path: str, context: ToolContext, limit: int, stop: Event) -> Image:
        if "://" in path or path.startswith("data:"):
            raise InvalidRequest(f"{quote_path(path[:80])} is not a file: fetch or save it first, then give its path.")
        where = resolve_path(path, context.workspace, workspace_only=self.workspace_only)
        with open_regular(where) as stream:
            data = stream.read(limit + 1) or b""
            while data and len(data) <= limit and (more := stream.read(limit + 1 - len(data))):
                data += more
        mime = image_type(data[:64])
        if mime is None:
            raise InvalidRequest(f"{quote_path(where)} is not an image (jpg, png, gif, webp, bmp).")
        if len(data) > limit:
            raise InvalidRequest(f"{quote_path(where)} is larger than {format_size(limit)}: make a smaller copy first.")
        if mime == "image/bmp":
            mime, data = "image/png", to_png(data)
        return Image(base64.b64encode(data).decode("ascii"), mime)
