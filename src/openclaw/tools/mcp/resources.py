"""Offers an MCP server's resources and prompts as tools."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from mcp.shared.exceptions import MCPError

MOST_LISTED = 200
SHOWN = 300
MOST_TEXT = 1_000_000
MOST_IMAGE = 6_000_000
MOST_BLOCKS = 64

_CURSOR = {"cursor": {"type": "string", "description": "The nextCursor of the page before"}}


def _tool(name: str, description: str, properties: Mapping[str, Any], *required: str) -> Mapping[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    return {"name": name, "title": "", "description": description, "parameters": schema, "read_only": True}


RESOURCES = (
    _tool("resources_list", "List what this server has to read: address, name and type of each resource.", _CURSOR),
    _tool(
        "resources_read",
        "Read a resource of this server.",
        {"uri": {"type": "string", "description": "Its address, as resources_list gives it"}},
        "uri",
    ),
)
PROMPTS = (
    _tool("prompts_list", "List the prompts this server has ready, with their arguments.", _CURSOR),
    _tool(
        "prompts_get",
        "Get a prompt of this server, filled in.",
        {
            "name": {"type": "string", "description": "Its name, as prompts_list gives it"},
            "arguments": {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "description": "Its arguments by name",
            },
        },
        "name",
    ),
)


async def list_extra_tools(client: Any) -> list[Mapping[str, Any]]:
    """The tools for the server's resources and prompts; none for what it does not have."""

    async def some(ask: Any, field: str) -> bool:
        try:
            return bool(getattr(await ask(cache_mode="bypass"), field))
        except MCPError:
            return False

    can = client.server_capabilities
    found: list[Mapping[str, Any]] = []
    if can.resources is not None and (
        await some(client.list_resources, "resources")
        or await some(client.list_resource_templates, "resource_templates")
    ):
        found += RESOURCES
    if can.prompts is not None and await some(client.list_prompts, "prompts"):
        found += PROMPTS
    return found


async def call_extra_tool(client: Any, name: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
    """Calls one of the tools above."""
    match name:
        case "resources_list":
            return _json(await _resources(client, args.get("cursor")))
        case "prompts_list":
            return _json(await _prompts(client, args.get("cursor")))
        case "resources_read":
            read = await client.read_resource(args["uri"], cache_mode="bypass")
            return _result(_read(read.contents))
        case _:
            got = await client.get_prompt(args["name"], dict(args.get("arguments") or {}))
            return _result(_spoken(got.messages))


async def _resources(client: Any, cursor: str | None) -> dict[str, Any]:
    page = await client.list_resources(cursor=cursor, cache_mode="bypass")
    templates = []
    if cursor is None:
        with suppress(MCPError):
            templates = (await client.list_resource_templates(cache_mode="bypass")).resource_templates
    return {
        "resources": [
            {"uri": str(each.uri), "size": getattr(each, "size", None), **_about(each)}
            for each in page.resources[:MOST_LISTED]
        ],
        "templates": [{"uriTemplate": each.uri_template, **_about(each)} for each in templates[:MOST_LISTED]],
        "nextCursor": page.next_cursor,
    }


async def _prompts(client: Any, cursor: str | None) -> dict[str, Any]:
    page = await client.list_prompts(cursor=cursor, cache_mode="bypass")
    return {
        "prompts": [
            {
                **_about(each),
                "arguments": [
                    {"name": one.name, "required": bool(one.required), "description": (one.description or "")[:SHOWN]}
                    for one in each.arguments or ()
                ],
            }
            for each in page.prompts[:MOST_LISTED]
        ],
        "nextCursor": page.next_cursor,
    }


def _about(each: Any) -> dict[str, Any]:
    return {
        "name": each.name,
        "title": each.title,
        "description": (each.description or "")[:SHOWN],
        "mimeType": getattr(each, "mime_type", None),
    }


def _read(contents: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    for each in contents[:MOST_BLOCKS]:
        text = getattr(each, "text", None)
        blob = getattr(each, "blob", None) or ""
        mime = each.mime_type or ""
        if text is not None:
            yield {"type": "text", "text": text[:MOST_TEXT]}
        elif mime.startswith("image/") and len(blob) <= MOST_IMAGE:
            yield {"type": "image", "data": blob, "mimeType": mime}
        else:
            what = f"{len(blob) * 3 // 4} bytes of {mime or 'no type'}"
            yield {"type": "text", "text": f"[{each.uri}: {what}: not shown]"}


def _spoken(messages: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    for each in messages[:MOST_BLOCKS]:
        for block in blocks([each.content]):
            yield {**block, "text": f"{each.role}: {block['text']}"} if block["type"] == "text" else block


def blocks(content: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    """The content of a result, as text and images; audio and binary data are only named."""
    for block in content[:MOST_BLOCKS]:
        match block.type:
            case "text":
                yield {"type": "text", "text": block.text[:MOST_TEXT]}
            case "image" if len(block.data) <= MOST_IMAGE:
                yield {"type": "image", "data": block.data, "mimeType": block.mime_type}
            case "resource" if getattr(block.resource, "text", None) is not None:
                yield {"type": "text", "text": f"[{block.resource.uri}]\n{block.resource.text[:MOST_TEXT]}"}
            case "resource_link":
                yield {"type": "text", "text": f"[link: {block.uri} {block.title or block.name}]"}
            case other:
                yield {"type": "text", "text": f"[{other}: not shown]"}
    if len(content) > MOST_BLOCKS:
        yield {"type": "text", "text": f"[{len(content) - MOST_BLOCKS} more parts: not shown]"}


def _json(value: dict[str, Any]) -> Mapping[str, Any]:
    text = msgspec.json.format(msgspec.json.encode(_without_nothing(value)), indent=1).decode()
    return _result([{"type": "text", "text": text}])


def _without_nothing(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nothing(each) for name, each in value.items() if each not in (None, "")}
    return [_without_nothing(each) for each in value] if isinstance(value, list) else value


def _result(content: Any) -> Mapping[str, Any]:
    return {"content": tuple(content), "structured": None, "is_error": False}
