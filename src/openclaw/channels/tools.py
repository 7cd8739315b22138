"""The `message` tool: the agent writes to people on connected channels, and reacts to what they wrote."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

import msgspec
from msgspec import Struct

from openclaw.channels.media.outbound import is_address
from openclaw.channels.messages import Attachments, ButtonArgs, MessageService, rows_of
from openclaw.core.channel import Action, Address, Outbound
from openclaw.core.errors import InvalidRequest, OpenClawError
from openclaw.core.keys import MAIN, parse_session_key
from openclaw.core.tool import Effects, Output, ToolContext, ToolSpec, tool_spec
from openclaw.runs.inbox import Inbox
from openclaw.runs.request import RunRequest
from openclaw.tools.base import UNSUPPORTED_PARAMETERS, SimpleTool, json_output, parse_args

MOST_TARGETS = 50
ELSEWHERE = ("channel", "target", "targets", "accountId", "threadId")
"""Arguments that may name others than the people of this conversation."""

_AS_FILE = "write the content to a file and give its path as media"
_PLAIN = "the connected channels send plain messages and files; leave it out"
UNSUPPORTED_PARAMS = {
    **UNSUPPORTED_PARAMETERS,
    **dict.fromkeys(("buffer", "filename", "contentType", "mimeType"), _AS_FILE),
    **dict.fromkeys(("voiceText", "voiceProvider", "voiceId"), "there is no voice here; send it as text"),
    **dict.fromkeys(("effect", "effectId", "silent", "gifPlayback", "forceDocument", "asDocument"), _PLAIN),
    "quoteText": "name the message with replyTo instead",
    "final": "your turn ends with your own answer; leave it out",
}
_ABOUT_MESSAGES: dict[str, Any] = {
    "messageId": {
        "type": "string",
        "description": "of edit, delete, react; default: the one you answer",
    }
}


class MessageAttachment(Struct, frozen=True, kw_only=True, rename="camel"):
    """A file to attach. Its name and type come from the file itself."""

    media: str = ""
    type: str = ""
    name: str = ""
    mime_type: str = ""


class MessageArgs(Struct, frozen=True, kw_only=True, rename="camel"):
    action: Literal["send", "broadcast", "react", "edit", "delete"]
    channel: str = ""
    target: str = ""
    targets: tuple[str, ...] = ()
    account_id: str = ""
    message: str = ""
    media: str = ""
    attachments: tuple[MessageAttachment, ...] = ()
    caption: str = ""
    reply_to: str | None = None
    thread_id: str | None = None
    message_id: str = ""
    emoji: str = ""
    remove: bool = False
    buttons: tuple[tuple[ButtonArgs, ...], ...] = ()
    as_voice: bool = False
    dry_run: bool = False


@lru_cache(maxsize=32)
def message_spec(actions: tuple[Action, ...], *, buttons: bool, voice: bool) -> ToolSpec:
    """The tool as it is while the connected platforms can do these things."""
    more: dict[str, Any] = {}
    absent = dict(UNSUPPORTED_PARAMS)
    if len(actions) > 1:
        more |= _ABOUT_MESSAGES
    if "react" in actions:
        more["emoji"] = {"type": "string", "description": "react"}
        more["remove"] = {"type": "boolean", "description": "react: take it back"}
    if voice:
        more["asVoice"] = {"type": "boolean", "description": "sound as a voice note"}
    else:
        absent["asVoice"] = "the connected channels have no voice notes; leave it out, and it goes as a file"
    if buttons:
        fields = {"text": {"type": "string"}, "callback_data": {"type": "string"}}
        button = {"type": "object", "required": ["text"], "properties": fields}
        rows = {"type": "array", "items": {"type": "array", "items": button}}
        more["buttons"] = {**rows, "description": "rows below the text; a press comes as a message"}
    verbs = {"react": "react puts an emoji on a message", "edit": "edit changes one of yours", "delete": "delete"}
    said = "; ".join(["", *(verbs[name] for name in actions if name in verbs)])
    return tool_spec(
        "message",
        "Message",
        "send messages to people on connected channels",
        f"Send a message on a connected channel: send to one target, broadcast to several{said}. Your answer reaches "
        "this conversation by itself; this is for others or, without a target, for what goes beside the answer.",
        {
            "action": {"type": "string", "enum": ["send", "broadcast", *(each for each in actions if each != "send")]},
            "channel": {"type": "string", "description": "default: this conversation's"},
            "target": {"type": "string", "description": "id, @name, channel:id, or id:topic:number"},
            "targets": {"type": "array", "items": {"type": "string"}, "description": "broadcast"},
            "accountId": {"type": "string"},
            "message": {"type": "string"},
            "media": {"type": "string", "description": "path or https address of a file"},
            "attachments": {
                "type": "array",
                "description": "several files",
                "items": {
                    "type": "object",
                    "required": ["media"],
                    "properties": {
                        "media": {"type": "string"},
                        "type": {"type": "string", "enum": ["image", "audio", "video", "file"]},
                        "name": {"type": "string"},
                        "mimeType": {"type": "string"},
                    },
                },
            },
            "caption": {"type": "string"},
            "replyTo": {"type": "string", "description": "message id"},
            "threadId": {"type": "string"},
            **more,
            "dryRun": {"type": "boolean", "description": "only check whether it could be sent"},
        },
        "action",
        aliases={"to": "target", "text": "message", "content": "message"},
        rare=("accountId", "attachments", "caption", "threadId", "dryRun", "remove", "asVoice", "buttons"),
        absent=absent,
    )


class MessageTool(SimpleTool):
    """`message`: sends, and does to messages what the connected platforms can do."""

    spec = message_spec(("send",), buttons=False, voice=False)

    def __init__(self, messages: MessageService, attachments: Attachments, inbox: Inbox) -> None:
        self._messages = messages
        self._attachments = attachments
        self._inbox = inbox
        facts = messages.facts
        able = {action for each in facts for action in each.actions}
        self.spec = message_spec(
            tuple(action for action in ("send", "react", "edit", "delete") if action in able),
            buttons=any(each.buttons for each in facts),
            voice=any(each.voice for each in facts),
        )

    def effects(self, args: Mapping[str, Any]) -> Effects:
        # Without a target it goes where the answer goes anyway.
        found = Effects.SENDS_OUT if any(args.get(name) for name in ELSEWHERE) else Effects.NONE
        files = [args.get("media"), *(each.get("media") for each in _objects(args.get("attachments")))]
        for media in filter(None, files):
            # A request to an address can carry words to its server.
            found |= Effects.SENDS_OUT if is_address(str(media)) else Effects.READS_FILES
        if args.get("action") == "delete":
            found |= Effects.SENDS_OUT | Effects.DELETES
        return found

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        return frozenset(("message",))

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        try:
            wanted = parse_args(args, MessageArgs)
            own, answered = await self._conversation(context.run_id)
            messages = [self._build(wanted, target, own, answered, context) for target in _targets(wanted)]
            for message in messages:
                self._messages.check(message)
        except OpenClawError as error:
            return json_output({"status": "error", "error": error.message}, failed=True)
        if wanted.dry_run:
            return json_output({"status": "ok", "dryRun": True, "targets": [_told(each.to) for each in messages]})
        sent, failed = [], []
        for place, message in enumerate(messages):
            name = f"tool:{context.run_id}:{context.call_id}:{place}"
            try:
                sent.append({**_told(message.to), **await self._messages.deliver(message, name)})
            except OpenClawError as error:
                failed.append({**_told(message.to), "error": error.message})
        result = {"status": "error" if failed else "ok", "action": wanted.action, "sent": sent}
        return json_output({**result, **({"failed": failed} if failed else {})}, failed=bool(failed))

    async def _conversation(self, run_id: str) -> tuple[Address | None, str]:
        """Where the answer of a run goes, and the message there that it answers."""
        entry = await self._inbox.get(run_id) if run_id else None
        if entry is None:
            return None, ""
        request = msgspec.json.decode(entry.request, type=RunRequest)
        return request.reply_to, request.reply_to_id

    def _build(
        self, wanted: MessageArgs, target: str, own: Address | None, answered: str, context: ToolContext
    ) -> Outbound:
        to = self._messages.address(
            target, channel=wanted.channel, account=wanted.account_id, thread=wanted.thread_id, own=own
        )
        if wanted.action == "react":
            if not wanted.emoji.strip() and not wanted.remove:
                raise InvalidRequest("say what to react with: emoji, or remove to take a reaction back")
            here = answered if own is not None and (to.channel, to.to) == (own.channel, own.to) else ""
            text = "" if wanted.remove else wanted.emoji.strip()
            return Outbound(to=to, text=text, action="react", about=wanted.message_id or here or None)
        text, about = wanted.message or wanted.caption, wanted.message_id or None
        if wanted.action == "edit":
            return Outbound(to=to, text=text, action="edit", about=about, buttons=rows_of(wanted.buttons))
        if wanted.action == "delete":
            return Outbound(to=to, text="", action="delete", about=about)
        if any(not each.media.strip() for each in wanted.attachments):
            raise InvalidRequest("every attachment needs media: the path of a file")
        raw = dict.fromkeys(each for each in (wanted.media, *(file.media for file in wanted.attachments)) if each)
        key = parse_session_key(context.session_key or MAIN)
        return Outbound(
            to=to,
            text=text,
            media=tuple(self._attachments.for_agent(each, context.workspace, key) for each in raw),
            buttons=rows_of(wanted.buttons),
            reply_to=wanted.reply_to,
            voice=wanted.as_voice,
        )


def _objects(value: Any) -> list[Mapping[str, Any]]:
    """Arguments are not checked yet when effects are asked for."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list | tuple) else []


def _targets(wanted: MessageArgs) -> list[str]:
    """Whom it goes to; an empty one is the conversation itself."""
    targets = list(dict.fromkeys(each for each in (wanted.target, *wanted.targets) if each.strip()))
    if wanted.action == "broadcast" and not targets:
        raise InvalidRequest("broadcast needs targets")
    if wanted.action != "broadcast" and len(targets) > 1:
        raise InvalidRequest(f"{wanted.action} needs one target; broadcast takes several")
    if len(targets) > MOST_TARGETS:
        raise InvalidRequest(f"{len(targets)} targets at once; {MOST_TARGETS} is the most")
    return targets or [""]


def _told(to: Address) -> dict[str, Any]:
    return {"channel": to.channel, "target": to.to, **({"threadId": to.thread} if to.thread else {})}
