"""The `image` tool: loads images for a model that sees, or has one describe them."""

import base64
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from openclaw.core.errors import InvalidRequest
from openclaw.core.messages import Image, Text
from openclaw.core.tool import Effects, Output, ToolContext, ToolSpec
from openclaw.process.tasks import run_in_thread
from openclaw.tools.base import errors_to_output, parse_args
from openclaw.tools.files import MAX_IMAGE_BYTES, image_type, to_png
from openclaw.tools.paths import format_size, open_regular, quote_path, resolve_confined

MOST_IMAGES = 20
DEFAULT_PROMPT = "Describe the image."

DescribeImages = Callable[[str, str, Sequence[Image]], Awaitable[str]]
"""Asks a vision model: agent, prompt, images -> its description."""


class ImageArgs(Struct, frozen=True, rename="camel"):
    prompt: str = ""
    image: str = ""
    images: tuple[str, ...] = ()
    max_bytes_mb: float | None = None
    max_images: int = MOST_IMAGES


class ImageTool:
    """The `image` tool."""

    spec = ToolSpec(
        name="image",
        label="Image",
        summary="look at images",
        description=(
            "Look at one or more image files. If you can see images they are shown to you; otherwise a model that "
            "can answers your prompt about them."
        ),
        parameters={
            "type": "object",
            "properties": {
                "prompt": {"type": "string", "description": "What to find out about the images"},
                "image": {"type": "string", "description": "Path of an image"},
                "images": {"type": "array", "items": {"type": "string"}, "description": "Paths of several images"},
                "maxBytesMb": {"type": "number", "exclusiveMinimum": 0, "description": "Most megabytes of one image"},
                "maxImages": {"type": "integer", "minimum": 1, "description": "Most images, 20 at the utmost"},
            },
        },
        aliases={"path": "image", "paths": "images", "max_bytes_mb": "maxBytesMb", "max_images": "maxImages"},
    )

    def __init__(self, look: DescribeImages, *, workspace_only: bool = False) -> None:
        self._look = look
        self._workspace_only = workspace_only

    def effects(self, args: Mapping[str, Any]) -> Effects:
        return Effects.READS_FILES

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        return frozenset()

    @errors_to_output
    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        wanted = parse_args(args, ImageArgs)
        paths = list(dict.fromkeys(path for path in (wanted.image, *wanted.images) if path.strip()))
        if not paths:
            raise InvalidRequest("No image is named: give image or images.")
        most = max(1, min(wanted.max_images, MOST_IMAGES))
        if len(paths) > most:
            raise InvalidRequest(f"{len(paths)} images are too many: at most {most} in a call.")
        limit = MAX_IMAGE_BYTES
        if wanted.max_bytes_mb is not None:
            limit = min(limit, round(wanted.max_bytes_mb * 1024 * 1024))
        images = await run_in_thread(lambda stop: [self._load(path, context, limit) for path in paths])
        places = tuple(str(resolve_confined(path, context.workspace)) for path in paths)
        if context.accepts_images:
            note = f"{len(images)} image(s): {', '.join(quote_path(path) for path in paths)}."
            return Output(content=(Text(note), *images), details={"images": paths}, touched=places)
        said = await self._look(context.agent_id, wanted.prompt.strip() or DEFAULT_PROMPT, images)
        return structs.replace(Output.of(said, images=paths), touched=places)

    def _load(self, path: str, context: ToolContext, limit: int) -> Image:
        if "://" in path or path.startswith("data:"):
            raise InvalidRequest(f"{quote_path(path[:80])} is not a file: fetch or save it first, then give its path.")
        where = resolve_confined(path, context.workspace, workspace_only=self._workspace_only)
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
            return Image(base64.b64encode(to_png(data)).decode("ascii"), "image/png")
        return Image(base64.b64encode(data).decode("ascii"), mime)
