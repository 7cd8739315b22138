"""`openclaw message`: writes to people on connected channels, and changes what was written."""

import json
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from openclaw.cli.client import call_running, given
from openclaw.cli.render import JSON, note, show
from openclaw.core.errors import OpenClawError

F = TypeVar("F", bound=Callable[..., Any])
ABSENT = "channels are connected by the running gateway, and none runs: openclaw gateway start"
SECONDS = 60.0


@click.group("message")
def message_command() -> None:
    """Write to people on connected channels: send, edit, react, delete. Needs the running gateway.

    A target is a person or a group on its platform: 123456, @name, telegram:123456, -100123:topic:42,
    !room:server. The channel is needed when several are connected and the target does not say it.
    """


def _where(function: F) -> F:
    options = (
        click.option("--channel", metavar="NAME", help="telegram, matrix, …; not needed when one is connected."),
        click.option("--account", "account_id", metavar="NAME", help="Which account of several."),
        click.option("--thread-id", metavar="ID", help="The thread or topic in that conversation."),
        click.option("--dry-run", is_flag=True, help="Only check whether it could be done."),
        JSON,
    )
    for option in reversed(options):
        function = option(function)
    return function


TARGET = click.option("-t", "--target", required=True, metavar="WHOM", help="The person or the group.")
MESSAGE = click.option("-m", "--message", metavar="TEXT", help="The text, as Markdown.")
MESSAGE_ID = click.option("--message-id", required=True, metavar="ID", help="Which message there.")
MEDIA = click.option("--media", type=click.Path(exists=True, dir_okay=False), help="A file to go along.")
BUTTONS = click.option("--buttons", metavar="JSON", help='Rows of buttons: [[{"text":"Yes","callback_data":"yes"}]].')


@message_command.command("send")
@TARGET
@MESSAGE
@MEDIA
@click.option("--as-voice", is_flag=True, help="The file is a voice note.")
@click.option("--reply-to", metavar="ID", help="The message that this answers.")
@BUTTONS
@_where
def send(
    target: str,
    message: str | None,
    media: str | None,
    as_voice: bool,
    reply_to: str | None,
    buttons: str | None,
    **where: Any,
) -> None:
    """Send a text, a file or both."""
    if not message and not media:
        raise click.UsageError("there is nothing to send: give --message or --media")
    told = given(message=message, media=_path(media), replyTo=reply_to, buttons=_rows(buttons))
    _act("send", {"target": target, "asVoice": as_voice, **told}, where)


@message_command.command("broadcast")
@click.option("--targets", required=True, multiple=True, metavar="WHOM", help="A person or a group; repeat it.")
@MESSAGE
@MEDIA
@_where
def broadcast(targets: tuple[str, ...], message: str | None, media: str | None, as_json: bool, **where: Any) -> int:
    """Send the same to several people or groups; one that fails does not stop the others."""
    if not message and not media:
        raise click.UsageError("there is nothing to send: give --message or --media")
    told = given(message=message, media=_path(media))
    sent, failed = [], []
    for target in dict.fromkeys(targets):
        try:
            sent.append(_call("send", {"target": target, **told}, where))
        except OpenClawError as error:
            failed.append({"target": target, "error": error.message})
    lines = [_line("send", each) for each in sent]
    show({"sent": sent, "failed": failed}, lines, as_json)
    for each in failed:
        note(f"{each['target']}: {each['error']}")
    return 1 if failed else 0


@message_command.command("edit")
@TARGET
@MESSAGE_ID
@click.option("-m", "--message", required=True, metavar="TEXT", help="What it shall be, as Markdown.")
@BUTTONS
@_where
def edit(target: str, message_id: str, message: str, buttons: str | None, **where: Any) -> None:
    """Change a message that the assistant sent."""
    told = given(message=message, buttons=_rows(buttons))
    _act("edit", {"target": target, "messageId": message_id, **told}, where)


@message_command.command("react")
@TARGET
@MESSAGE_ID
@click.option("--emoji", default="", metavar="EMOJI", help="With what.")
@click.option("--remove", is_flag=True, help="Take the reaction back.")
@_where
def react(target: str, message_id: str, emoji: str, remove: bool, **where: Any) -> None:
    """Put an emoji on a message, or take it back."""
    if not emoji.strip() and not remove:
        raise click.UsageError("say with what: --emoji 👍, or --remove")
    _act("react", {"target": target, "messageId": message_id, "emoji": emoji, "remove": remove}, where)


@message_command.command("delete")
@TARGET
@MESSAGE_ID
@_where
def delete(target: str, message_id: str, **where: Any) -> None:
    """Delete a message that the assistant sent."""
    _act("delete", {"target": target, "messageId": message_id}, where)


def _act(action: str, params: Mapping[str, Any], where: dict[str, Any]) -> None:
    as_json = where.pop("as_json")
    done = _call(action, params, where)
    show(done, _line(action, done), as_json)


def _call(action: str, params: Mapping[str, Any], where: Mapping[str, Any]) -> dict[str, Any]:
    told = {**params, **given(threadId=where["thread_id"]), "dryRun": where["dry_run"]}
    ask = {"action": action, "params": told, "idempotencyKey": str(uuid.uuid4())}
    ask |= given(channel=where["channel"], accountId=where["account_id"])
    done: dict[str, Any] = call_running("message.action", ask, absent=ABSENT, timeout=SECONDS)
    return done


DONE = {"send": "sent to", "edit": "changed for", "react": "reacted to in", "delete": "deleted for"}


def _line(action: str, done: Mapping[str, Any]) -> str:
    whom = f"{done['channel']}:{done['to']}{':topic:' + done['threadId'] if done.get('threadId') else ''}"
    if done.get("dryRun"):
        return f"{whom}: it could be done; nothing was"
    if done["status"] != "sent":
        return f"{whom}: {done['status']}: {done['note']}"
    return f"{DONE[action]} {whom}, message {done['messageId']}"


def _path(media: str | None) -> str | None:
    return str(Path(media).expanduser().resolve()) if media else None


def _rows(buttons: str | None) -> Any:
    if buttons is None:
        return None
    try:
        rows = json.loads(buttons)
    except ValueError as error:
        raise click.UsageError(f"--buttons is not JSON ({error}): rows of buttons, each with text") from None
    return rows
