"""Slack's own client as a judge of our fault server: its Web API, and Socket Mode with its acknowledgements."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.channels.slack.server import ADA, APP_TOKEN, BOT, CHANNEL, SIGNING, TOKEN, Fault, SlackServer
from tests.plugins.support import DEADLINE

slack_sdk = pytest.importorskip("slack_sdk", reason="slack-sdk is not installed")
from slack_sdk.errors import SlackApiError  # noqa: E402
from slack_sdk.signature import SignatureVerifier  # noqa: E402
from slack_sdk.socket_mode.builtin import SocketModeClient  # noqa: E402
from slack_sdk.socket_mode.response import SocketModeResponse  # noqa: E402


@pytest.fixture
def server() -> Iterator[SlackServer]:
    with SlackServer() as running:
        yield running


@pytest.fixture
def web(server: SlackServer) -> Any:
    return slack_sdk.WebClient(TOKEN, base_url=f"{server.url}/", retry_handlers=[])


def test_it_understands_our_web_api(server: SlackServer, web: Any) -> None:
    assert web.auth_test()["user_id"] == BOT
    section = {"type": "section", "text": {"type": "mrkdwn", "text": "May I?"}}
    sent = web.chat_postMessage(channel=CHANNEL, text="May I?", blocks=[section], thread_ts="1.000001")
    assert web.chat_update(channel=CHANNEL, ts=sent["ts"], text="Yes.")["text"] == "Yes."
    assert web.reactions_add(channel=CHANNEL, timestamp=sent["ts"], name="eyes")["ok"]
    assert web.reactions_get(channel=CHANNEL, timestamp=sent["ts"])["message"]["reactions"][0]["users"] == [BOT]
    assert web.reactions_remove(channel=CHANNEL, timestamp=sent["ts"], name="eyes")["ok"]
    assert web.chat_delete(channel=CHANNEL, ts=sent["ts"])["ok"]
    with pytest.raises(SlackApiError, match="message_not_found"):
        web.chat_delete(channel=CHANNEL, ts=sent["ts"])
    assert web.chat_postEphemeral(channel=CHANNEL, user=ADA, text="psst")["message_ts"]
    assert web.conversations_open(users=ADA)["channel"]["id"] == "D007"
    assert web.users_info(user=ADA)["user"]["profile"]["display_name"] == "Ada"
    server.faults = [Fault("chat.postMessage", 429, retry_after=7)]
    with pytest.raises(SlackApiError) as told:
        web.chat_postMessage(channel=CHANNEL, text="x")
    assert told.value.response.headers["retry-after"] == "7"
    with pytest.raises(SlackApiError, match="invalid_auth"):
        slack_sdk.WebClient("xoxb-other", base_url=f"{server.url}/").auth_test()


def test_it_reads_our_history_page_by_page(server: SlackServer, web: Any) -> None:
    for number in range(5):
        server.says(str(number), channel=CHANNEL)
    pages = [
        [each["text"] for each in page["messages"]] for page in web.conversations_history(channel=CHANNEL, limit=2)
    ]
    assert pages == [["4", "3"], ["2", "1"], ["0"]]
    root = server.messages[0]["ts"]
    server.says("below", channel=CHANNEL, thread_ts=root)
    replies = web.conversations_replies(channel=CHANNEL, ts=root)["messages"]
    assert [each["text"] for each in replies] == ["0", "below"] and replies[0]["latest_reply"] == replies[1]["ts"]


def test_it_uploads_to_our_server(server: SlackServer, web: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"content")
    done = web.files_upload_v2(file=str(tmp_path / "a.txt"), channel=CHANNEL, initial_comment="look")
    assert done["ok"] and server.sent[0]["text"] == "look"
    assert b"content" in server.uploads[server.sent[0]["files"][0]["id"]]


def test_it_takes_the_signatures_of_our_server(server: SlackServer) -> None:
    headers = server.sign(b'{"a":1}')
    assert SignatureVerifier(SIGNING).is_valid_request(b'{"a":1}', headers)
    assert not SignatureVerifier("other").is_valid_request(b'{"a":1}', headers)


def test_it_listens_to_our_socket_mode(server: SlackServer, web: Any) -> None:
    heard: list[Any] = []
    changed = threading.Condition()
    client = SocketModeClient(app_token=APP_TOKEN, web_client=web, auto_reconnect_enabled=False)

    def listen(_: Any, request: Any) -> None:
        answer = {"text": "as asked"} if request.accepts_response_payload else None
        client.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id, payload=answer))
        with changed:
            heard.append(request)
            changed.notify_all()

    client.socket_mode_request_listeners.append(listen)
    server.says("said before")
    try:
        client.connect()
        server.until(lambda: server.connections, DEADLINE)
        server.says(f"<@{BOT}> hello", channel=CHANNEL)
        server.presses("1.000001", "ok:1")
        server.chooses("/openclaw", "status")
        with changed:
            assert changed.wait_for(lambda: len(heard) == 4, DEADLINE)
        server.until(lambda: len(server.acks) == 4, DEADLINE)
    finally:
        client.close()
    assert [each.type for each in heard].count("events_api") == 2
    again = next(each for each in heard if each.payload.get("event", {}).get("text") == "said before")
    assert again.retry_attempt == 1
    press = next(each for each in heard if each.type == "interactive")
    assert press.payload["actions"][0]["value"] == "ok:1"
    assert [each["payload"] for each in server.acks if each.get("payload")] == [{"text": "as asked"}]
