"""The `nodes` and `canvas` tools, for devices paired with the gateway. Not offered: no device can serve them yet."""

import json
from collections.abc import Mapping
from typing import Any

from openclaw.core.clock import Clock, millis
from openclaw.core.tool import Effects, Output, ToolContext, ToolSpec

NONE = "No node is connected: no phone, camera or other device is paired with this gateway, so nothing was done."
NO_CANVAS = "No canvas is there: it is shown by a paired node, and none is connected. Answer in words instead."


def _text(about: str, *choices: str) -> dict[str, Any]:
    return {"type": "string", "description": about, **({"enum": list(choices)} if choices else {})}


def _whole(about: str, **limits: int) -> dict[str, Any]:
    return {"type": "integer", "description": about, **limits}


def _number(about: str, **limits: float) -> dict[str, Any]:
    return {"type": "number", "description": about, **limits}


_GATEWAY: dict[str, Any] = {
    "gatewayUrl": _text("Another gateway; not available"),
    "gatewayToken": _text("Its token; not available"),
    "timeoutMs": _whole("Longest wait", minimum=1),
    "node": _text("Which node: id, name or address"),
}


class NodesTool:
    """The `nodes` tool; reports that no device is connected."""

    spec = ToolSpec(
        name="nodes",
        label="Nodes",
        summary="paired devices: notify, camera, screen, location",
        description="Devices paired with the gateway: list them, notify, take pictures, read the screen, find them.",
        parameters={
            "type": "object",
            "required": ["action"],
            "properties": {
                "action": _text(
                    "What to do",
                    *"status describe pending approve reject notify camera_snap camera_list".split(),
                    *"camera_clip camera_ptz photos_latest screen_record screen_snapshot location_get".split(),
                    *"notifications_list notifications_action device_status device_info device_permissions".split(),
                    *"device_health which invoke".split(),
                ),
                **_GATEWAY,
                "requestId": _text("approve, reject"),
                "title": _text("notify"),
                "body": _text("notify"),
                "sound": _text("notify"),
                "priority": _text("notify", "passive", "active", "timeSensitive"),
                "delivery": _text("notify", "system", "overlay", "auto"),
                "facing": _text("camera", "front", "back", "both"),
                "maxWidth": _whole("camera: most pixels across", minimum=1),
                "quality": _number("camera", minimum=0, maximum=1),
                "delayMs": _whole("camera: wait before", minimum=0),
                "deviceId": _text("camera: which"),
                "ptzOperation": _text("camera_ptz", "status", "set", "move", "home"),
                "panDegrees": _number("camera_ptz"),
                "tiltDegrees": _number("camera_ptz"),
                "zoomPercent": _number("camera_ptz"),
                "limit": _whole("photos_latest: how many", minimum=1, maximum=20),
                "duration": _text("camera_clip, screen_record: 10s, 1m"),
                "durationMs": _whole("The same in milliseconds", minimum=1, maximum=300_000),
                "includeAudio": {"type": "boolean", "description": "camera_clip, screen_record"},
                "fps": _number("screen_record", exclusiveMinimum=0),
                "screenIndex": _whole("Which screen", minimum=0),
                "outPath": _text("Where to save it"),
                "maxAgeMs": _whole("location_get: how old it may be", minimum=0),
                "locationTimeoutMs": _whole("location_get: longest wait", minimum=1),
                "desiredAccuracy": _text("location_get", "coarse", "balanced", "precise"),
                "notificationAction": _text("notifications_action", "open", "dismiss", "reply"),
                "notificationKey": _text("notifications_action: which"),
                "notificationReplyText": _text("notifications_action: the reply"),
                "bins": {
                    "type": "array",
                    "description": "which: programs",
                    "items": {"type": "string", "minLength": 1},
                    "minItems": 1,
                    "maxItems": 64,
                },
                "invokeCommand": _text("invoke: the command"),
                "invokeParamsJson": _text("invoke: its parameters as JSON"),
                "invokeTimeoutMs": _whole("invoke: longest wait", minimum=1),
            },
        },
    )

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def effects(self, args: Mapping[str, Any]) -> Effects:
        return Effects.NONE

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        return frozenset()

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        now = millis(self._clock)
        match args.get("action"):
            case "status":
                return Output.of(json.dumps({"ts": now, "nodes": []}, indent=2))
            case "pending":
                return Output.of(json.dumps({"ts": now, "pending": []}, indent=2))
            case _:
                return Output.failed(NONE)


class CanvasTool:
    """The `canvas` tool; reports that no device is connected."""

    spec = ToolSpec(
        name="canvas",
        label="Canvas",
        summary="show a page on a paired device",
        description="Show, hide or change the canvas of a paired device.",
        parameters={
            "type": "object",
            "required": ["action"],
            "properties": {
                "action": _text("What to do", "present", "hide", "navigate"),
                **_GATEWAY,
                "target": _text("present: what to show"),
                "x": _number("present: place"),
                "y": _number("present: place"),
                "width": _number("present: size"),
                "height": _number("present: size"),
                "url": _text("navigate: the address"),
            },
        },
    )

    def effects(self, args: Mapping[str, Any]) -> Effects:
        return Effects.NONE

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        return frozenset()

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        return Output.failed(NO_CANVAS)
