"""The floor on this machine, and how many times above it a turn stands.

Run: python benchmarks/floor.py [ROUNDS]

The floor is a bare loop in Python that does only what a turn cannot do without: receive a frame, ask a model once over
HTTP, append what was said to a file, send the answer. Once by hand on asyncio's own sockets, without and with an fsync,
and once with the libraries one would take (websockets, httpx2). Each is measured like our turn: same model, same
client, CPU of the process between them. Floors and our turn take turns, because the machine's speed varies; shown are
the medians, and how many times above its floor the turn of the same round stood.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import msgspec
from lean import ModelProcess, cpu_ms
from turn import SETTLED, gateway

from tests.e2e.raw_client import TEXT, frame, payload_at

TURNS = 300
WARM = 50


def _request(number: str) -> bytes:
    return msgspec.json.encode({"type": "req", "id": number, "params": {"message": "hello"}})


def _answer(number: str, text: str) -> bytes:
    """A server's frame; short enough for one byte of size, or two."""
    data = msgspec.json.encode({"type": "res", "id": number, "text": text})
    size = bytes([len(data)]) if len(data) < 126 else b"\x7e" + len(data).to_bytes(2)
    return b"\x81" + size + data


def _body(text: str) -> bytes:
    return msgspec.json.encode({"model": "mock", "messages": [{"role": "user", "content": text}], "stream": True})


def _words(stream: bytes) -> str:
    events = [line[6:] for line in stream.split(b"\n") if line.startswith(b'data: {"choices":[{')]
    deltas = [msgspec.json.decode(event)["choices"][0]["delta"] for event in events]
    return "".join(delta.get("content", "") for delta in deltas)


# By hand.


async def _by_hand(model: int, path: str, fsync: bool) -> None:
    asking, telling = await asyncio.open_connection("127.0.0.1", model)
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        buffer = bytearray()
        while data := await reader.read(65536):
            buffer += data
            while (found := payload_at(buffer, 0)) is not None:
                _, start, end = found
                asked = msgspec.json.decode(buffer[start:end])
                del buffer[:end]
                body = _body(asked["params"]["message"])
                head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body)
                telling.write(head + body)
                await asking.readuntil(b"\r\n\r\n")
                size = int(await asking.readline(), 16)
                said = _words(await asking.readexactly(size))
                await asking.readexactly(7)
                os.write(log, msgspec.json.encode([asked, said]) + b"\n")
                if fsync:
                    os.fsync(log)
                writer.write(_answer(asked["id"], said))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


# With libraries.


async def _with_libraries(model: int, path: str) -> None:
    import httpx2
    from websockets.asyncio.server import ServerConnection, serve
    from websockets.exceptions import ConnectionClosed

    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    async with httpx2.AsyncClient(trust_env=False) as client:

        async def handle(socket: ServerConnection) -> None:
            with suppress(ConnectionClosed):
                async for message in socket:
                    asked = msgspec.json.decode(message)
                    url, stream = f"http://127.0.0.1:{model}/v1/chat/completions", b""
                    async with client.stream("POST", url, content=_body(asked["params"]["message"])) as response:
                        async for chunk in response.aiter_bytes():
                            stream += chunk
                    said = _words(stream)
                    os.write(log, msgspec.json.encode([asked, said]) + b"\n")
                    await socket.send(msgspec.json.encode({"id": asked["id"], "text": said}), text=True)

        async with serve(handle, "127.0.0.1", 0, compression=None) as server:
            print(next(iter(server.sockets)).getsockname()[1], flush=True)
            await asyncio.to_thread(sys.stdin.read)


# Measuring.


async def _measure(port: int, pid: int, *, upgrade: bool) -> tuple[float, float]:
    """The median wall and the CPU of one exchange, in milliseconds."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    if upgrade:
        key = b"Sec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==\r\n"
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" + key)
        writer.write(b"Sec-WebSocket-Version: 13\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
    took: list[float] = []
    used = 0.0
    for number in range(WARM + TURNS):
        if number == WARM:
            used = cpu_ms(pid)
        began = time.perf_counter()
        writer.write(frame(TEXT, _request(uuid.uuid4().hex)))
        buffer = bytearray()
        while payload_at(buffer, 0) is None:
            buffer += await reader.read(65536)
        took.append((time.perf_counter() - began) * 1000)
    writer.close()
    return statistics.median(took[WARM:]), (cpu_ms(pid) - used) / TURNS


def _floor(kind: str, model: int) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as root:
        command = [sys.executable, __file__, kind, str(model), f"{root}/log"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout is not None
        try:
            port = int(process.stdout.readline())
            return asyncio.run(_measure(port, process.pid, upgrade=kind == "libraries"))
        finally:
            process.communicate()


async def _turn() -> tuple[float, float]:
    async with gateway(wait=SETTLED) as ours:
        await ours.turns(["floor"], WARM)
        done, cpu = await ours.turns(["floor"], TURNS)
        return statistics.median(turn.took for turn in done), cpu


def main(rounds: int) -> None:
    floors: dict[str, list[tuple[float, float]]] = {"hand": [], "fsync": [], "libraries": []}
    ours: list[tuple[float, float]] = []
    for _ in range(rounds):
        with ModelProcess() as model:
            for kind, measured in floors.items():
                measured.append(_floor(kind, model.port))
        ours.append(asyncio.run(_turn()))
    names = {"hand": "by hand", "fsync": "by hand, with fsync", "libraries": "with websockets and httpx2"}
    print(f"{'':<28} {'wall ms':>8} {'CPU ms':>8} {'our turn, CPU':>15}")
    for kind, measured in floors.items():
        times = statistics.median(our[1] / floor[1] for our, floor in zip(ours, measured, strict=True))
        print(f"{names[kind]:<28} {_medians(measured)} {times:>14.1f}x")
    print(f"{'a turn of the gateway':<28} {_medians(ours)}")


def _medians(measured: list[tuple[float, float]]) -> str:
    return " ".join(f"{statistics.median(each):>8.2f}" for each in zip(*measured, strict=True))


if __name__ == "__main__":
    if len(sys.argv) > 2:
        kind, port, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
        asyncio.run(_with_libraries(port, path) if kind == "libraries" else _by_hand(port, path, kind == "fsync"))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
