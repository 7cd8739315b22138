"""The `message` tool: the agent writes to people on connected channels."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

from msgspec import Struct

from openclaw.core.channel import Address, Outbound
from openclaw.core.errors import Conflict, InvalidRequest, OpenClawError, Unavailable
from openclaw.core.tool import Effects, Output, ToolContext
from openclaw.runs.hooks import RunHooks
from openclaw.runs.outbox import Outbox
from openclaw.tools.base import UNSUPPORTED_PARAMETERS, SimpleTool, json_output, parse_args, tool_spec

MOST_TARGETS = 50
RECEIPT_SECONDS = 20.0


_AS_FILE = "write the content to a file and give its path as media"
_PLAIN = "the connected channels send plain messages and files; leave it out"
UNSUPPORTED_PARAMS = {
    **UNSUPPORTED_PARAMETERS,
    **dict.fromkeys(("buffer", "filename", "contentType", "mimeType"), _AS_FILE),
    **dict.fromkeys(("asVoice", "voiceText", "voiceProvider", "voiceId"), "there is no voice here; send it as text"),
    **dict.fromkeys(("effect", "effectId", "silent", "gifPlayback", "forceDocument", "asDocument"), _PLAIN),
    "quoteText": "name the message with replyTo instead",
    "final": "your turn ends with your own answer; leave it out",
}


class MessageAttachment(Struct, frozen=True, kw_only=True, rename="camel"):
    """A file to attach. Its name and type come from the file itself."""

    media: str = ""
    type: str = ""
    name: str = ""
    mime_type: str = ""


class MessageArgs(Struct, frozen=True, kw_only=True, rename="camel"):
    action: Literal["send", "broadcast"]
    channel: str = ""
    target: str = ""
    targets: tuple[str, ...] = ()
    account_id: str = "default"
    message: str = ""
    media: str = ""
    attachments: tuple[MessageAttachment, ...] = ()
    caption: str = ""
    reply_to: str | None = None
    thread_id: str | None = None
    dry_run: bool = False


class MessageTool(SimpleTool):
    """`message`: sends a text to a person or a group of a connected channel."""

    spec = tool_spec(
        "message",
        "Message",
        "send messages to people on connected channels",
        "Send a message on a connected channel: action send with one target, broadcast with several. Your answer in "
        "this conversation goes to its own people by itself; this is for others.",
        {
            "action": {"type": "string", "enum": ["send", "broadcast"]},
            "channel": {"type": "string", "description": "Channel name; needed when several are connected"},
            "target": {"type": "string", "description": "Person or group on that channel"},
            "targets": {"type": "array", "items": {"type": "string"}, "description": "broadcast: all of them"},
            "accountId": {"type": "string"},
            "message": {"type": "string", "description": "The text"},
            "media": {"type": "string", "description": "Path or address of a file to go along"},
            "attachments": {
                "type": "array",
                "description": "Several files to go along",
                "items": {
                    "type": "object",
                    "required": ["media"],
                    "properties": {
                        "media": {"type": "string", "description": "Path or address"},
                        "type": {"type": "string", "enum": ["image", "audio", "video", "file"]},
                        "name": {"type": "string"},
                        "mimeType": {"type": "string"},
                    },
                },
            },
            "caption": {"type": "string"},
            "replyTo": {"type": "string", "description": "Id of the message this answers"},
            "threadId": {"type": "string"},
            "dryRun": {"type": "boolean", "description": "Only check whether it could be sent"},
        },
        "action",
        aliases={"to": "target", "text": "message", "content": "message"},
        absent=UNSUPPORTED_PARAMS,
    )

    def __init__(self, run_hooks: RunHooks, channels: Callable[[], Collection[str]], outbox: Outbox) -> None:
        self._run_hooks = run_hooks
        self._channels = channels
        self._outbox = outbox

    def effects(self, args: Mapping[str, Any]) -> Effects:
        return Effects.SENDS_OUT

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        return frozenset(("message",))

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        try:
            wanted = parse_args(args, MessageArgs)
            channel, targets, text = self._check(wanted)
        except OpenClawError as error:
            return json_output({"status": "error", "error": error.message}, failed=True)
        if wanted.dry_run:
            return json_output({"status": "ok", "dryRun": True, "channel": channel, "targets": targets})
        sent, failed = [], []
        for place, target in enumerate(targets):
            name = f"tool:{context.run_id}:{context.call_id}:{place}"
            try:
                sent.append({"target": target, **await self._send(channel, wanted, target, text, name)})
            except OpenClawError as error:
                failed.append({"target": target, "error": error.message})
        result = {"status": "error" if failed else "ok", "channel": channel, "sent": sent}
        return json_output({**result, **({"failed": failed} if failed else {})}, failed=bool(failed))

    def _check(self, wanted: MessageArgs) -> tuple[str, list[str], str]:
        there = self._channels()
        names = ", ".join(sorted(there))
        name = wanted.channel or (next(iter(there)) if len(there) == 1 else "")
        if not there:
            raise InvalidRequest("no channel is connected: a plugin brings one (openclaw plugins list)")
        if name not in there:
            raise InvalidRequest(f"say which channel: {names}" if not name else f"no channel {name}: there is {names}")
        targets = list(dict.fromkeys(each for each in (wanted.target, *wanted.targets) if each.strip()))
        if not targets or (wanted.action == "send" and len(targets) > 1):
            raise InvalidRequest("send needs one target; broadcast takes several")
        if len(targets) > MOST_TARGETS:
            raise InvalidRequest(f"{len(targets)} targets at once; {MOST_TARGETS} is the most")
        text = wanted.message or wanted.caption
        if any(not each.media.strip() for each in wanted.attachments):
            raise InvalidRequest("every attachment needs media: the path or address of a file")
        if not text.strip() and not wanted.media and not wanted.attachments:
            raise InvalidRequest("there is nothing to send: give message or media")
        return name, targets, text

    async def _send(self, channel: str, wanted: MessageArgs, target: str, text: str, name: str) -> dict[str, Any]:
        """Puts a message into the outbox and waits a moment for its receipt."""
        plugged = self._run_hooks
        if plugged is not None:
            merged = await plugged.messages.decided(target, text, plugged.errand("system"))
            if merged.cancelled is not None:
                raise Conflict(f"the plugin {merged.cancelled.plugin} cancelled it: {merged.cancelled.text}")
            text = merged.content
        address = Address(channel=channel, to=target, account=wanted.account_id, thread=wanted.thread_id)
        media = tuple(each for each in (wanted.media, *(file.media for file in wanted.attachments)) if each)
        await self._outbox.put(Outbound(to=address, text=text, media=media, reply_to=wanted.reply_to), name)
        entry = await self._outbox.settled(name, RECEIPT_SECONDS)
        if entry.state == "refused":
            raise Unavailable(entry.error)
        if entry.state != "sent":
            return {"status": "queued", "note": f"not delivered yet, it is tried again: {entry.error or 'waiting'}"}
        if plugged is not None:
            plugged.messages.tell_sent(target, text, plugged.errand("system"))
        return {"messageId": entry.receipts[-1].id}
