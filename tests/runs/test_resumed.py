"""A run that is taken up after a restart has the lane and the address it was accepted with."""

import msgspec

from openclaw.core.channel import Address
from openclaw.core.keys import SessionKey
from openclaw.runs.request import RunRequest


def test_a_request_on_record_keeps_its_lane_and_its_address() -> None:
    request = RunRequest(
        run_id="r1",
        key=SessionKey("main", "cron:1"),
        text="look",
        lane="cron",
        priority="background",
        reply_to=Address(channel="pigeon", to="eve", thread="7"),
    )
    assert msgspec.json.decode(msgspec.json.encode(request), type=RunRequest) == request


def test_a_request_of_an_earlier_version_waits_in_the_main_lane() -> None:
    earlier = b'{"run_id": "r1", "key": {"agent": "main", "rest": "main"}, "text": "hello"}'
    request = msgspec.json.decode(earlier, type=RunRequest)
    assert (request.lane, request.priority, request.reply_to) == ("main", "normal", None)
