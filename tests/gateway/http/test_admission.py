"""Which connections are kept when there are too many: decisions, and the port with real sockets."""

import asyncio
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.gateway.exposure import HostRules, listen
from openclaw.gateway.http.admission import Admission, ConnectionLimits, Slot, fit_descriptors
from openclaw.gateway.server import ServerLimits, serving
from tests.commandline import PATIENCE
from tests.gateway.daemon.test_server import SERVICE, ws

FEW = ConnectionLimits(connections=6, per_address=3, pending=4)


def entered(admission: Admission[Slot], address: str = "127.0.0.1", *, counted: bool = False) -> Slot:
    slot = Slot(address, counted=counted)
    assert admission.enter(slot)[0]
    return slot


def test_the_oldest_that_said_nothing_makes_room() -> None:
    admission: Admission[Slot] = Admission(FEW)
    first, *_ = [entered(admission) for _ in range(4)]
    assert admission.enter(Slot("127.0.0.1", counted=False)) == (True, first)
    assert (len(admission), admission.turned_away) == (4, 1)


def test_an_open_one_never_does() -> None:
    admission: Admission[Slot] = Admission(FEW)
    for _ in range(6):
        admission.move(entered(admission), "open")
    assert admission.enter(Slot("127.0.0.1", counted=False)) == (False, None)
    assert (len(admission), admission.turned_away) == (6, 1)


def test_one_address_pays_for_itself() -> None:
    admission: Admission[Slot] = Admission(FEW)
    other = entered(admission, "203.0.113.1", counted=True)
    mine = [entered(admission, "203.0.113.9", counted=True) for _ in range(3)]
    assert admission.enter(Slot("203.0.113.9", counted=True)) == (True, mine[0])
    for slot in mine[1:]:
        admission.move(slot, "open")
    admission.move(entered(admission, "203.0.113.9", counted=True), "open")
    assert admission.enter(Slot("203.0.113.9", counted=True)) == (False, None)
    assert admission.enter(Slot("203.0.113.1", counted=True)) == (True, None)
    admission.leave(other)
    assert admission.enter(Slot("127.0.0.1", counted=False)) == (True, None)


def test_a_socket_that_greets_goes_after_those_that_said_nothing() -> None:
    admission: Admission[Slot] = Admission(FEW)
    greeting = entered(admission)
    admission.move(greeting, "greeting")
    silent = [entered(admission) for _ in range(2)]
    for _ in range(3):
        admission.move(entered(admission), "open")
    assert admission.enter(Slot("127.0.0.1", counted=False)) == (True, silent[0])
    assert admission.make_room() == [silent[1]]


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["enter", "greeting", "open", "silent", "leave"]))))
def test_the_caps_hold_whatever_happens(steps: list[tuple[int, str]]) -> None:
    admission: Admission[Slot] = Admission(FEW)
    inside: list[Slot] = []
    for number, what in steps:
        if what == "enter":
            slot = Slot(f"203.0.113.{number}", counted=True)
            room, victim = admission.enter(slot)
            inside += [slot] if room else []
        elif inside and what == "leave":
            victim = inside[number % len(inside)]
            admission.leave(victim)
        else:
            victim = admission.move(inside[number % len(inside)], what) if inside else None  # type: ignore[arg-type]
        if victim is not None:
            inside.remove(victim)
        assert len(admission) == len(inside) <= 6
        assert all(sum(each.address == slot.address for each in inside) <= 3 for slot in inside)


@pytest.mark.parametrize(("descriptors", "room"), [(1_024, 768), (256, 128), (20_000, 2_048), (64, 32)], ids=str)
def test_files_and_models_keep_their_descriptors(descriptors: int, room: int) -> None:
    assert fit_descriptors(ConnectionLimits(), descriptors) == room


async def until_closed(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(PATIENCE):
        return await reader.read()


QUICK = ConnectionLimits(connections=8, pending=4, header_seconds=0.2, body_seconds=0.2)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"", b""),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n", b""),
        (b"POST /size HTTP/1.1\r\nHost: 127.0.0.1\r\ncontent-length: 9\r\n\r\nab", b"408"),
        # The answer comes without the body, which never does.
        (b"POST /none HTTP/1.1\r\nHost: 127.0.0.1\r\ncontent-length: 9\r\n\r\nab", b"404"),
        (b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET", b"200"),
    ],
)
async def test_whoever_keeps_the_port_waiting_is_closed(sent: bytes, answer: bytes) -> None:
    limits = ServerLimits(connections=QUICK)
    async with serving(listen(("127.0.0.1",), 0), HostRules(), limits=limits) as running:
        running.front.offer(SERVICE)
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(sent)
        assert answer in (await until_closed(reader)).split(b"\r\n")[0]
        writer.close()


@pytest.mark.anyio
async def test_a_crowd_that_says_nothing_does_not_keep_others_out() -> None:
    limits = ServerLimits(connections=ConnectionLimits(connections=8, pending=4))
    async with serving(listen(("127.0.0.1",), 0), HostRules(), limits=limits) as running:
        running.front.offer(SERVICE)
        async with ws(running) as before:
            crowd = [socket.create_connection(("127.0.0.1", running.port)) for _ in range(30)]
            try:
                async with asyncio.timeout(PATIENCE), ws(running) as new:
                    for client in (before, new):
                        await client.send("still here")
                        assert await client.recv() == "still here"
            finally:
                for one in crowd:
                    one.close()
