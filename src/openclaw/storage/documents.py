"""Small documents of a home that all gateways on one server share: who was let in, what may run, what was accepted.

They are files, read and written without waiting by many parts and by the command line. On one machine the files are all
there is. With a server the database has them, each with a revision, and the files are copies. Whoever changes one does
it in a `shared` block: it holds the document on the server, begins with what everybody has, and ends when the server
has the change. What other gateways changed arrives by notification; what a command changed in a file is sent within
seconds.
"""

import asyncio
import base64
import contextlib
import hashlib
import itertools
import logging
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from openclaw.core.errors import StateError
from openclaw.storage.atomic import Identity, identity_at, replace_file
from openclaw.storage.database import Database, Row, Transaction, TransactionBroken, transact
from openclaw.storage.locks import shared_homes

log = logging.getLogger(__name__)
T = TypeVar("T")
PATTERNS = (
    "credentials/*-pairing.json",
    "credentials/*-allowFrom.json",
    "exec-approvals.json",
    "state/approvals-accepted.json",
    "skills-trust.json",
    "mcp-tools.json",
    "hooks-trust.json",
    "plugins-lock.json",
    "workspace-trust.json",
    "labels/*.jsonl",
    "audit/*.jsonl",
    "audit/head.json",
)
"""The documents, below the state directory. Credentials are none of them: give each gateway references to secrets."""
TOPIC = "documents"
WAIT_SECONDS = 10.0
"""How long a change waits for the server. It blocks its thread, so it is not for long."""
SWEEP_SECONDS = 2.0
ASK_EVERY = 5
"""Sweeps until the server is asked for changes that nobody told of."""
_ALL = "SELECT name, revision, body, digest FROM documents"
_REPLACE = (
    "INSERT INTO documents (name, revision, body, digest, updated_at) VALUES (:name, :now, :body, :digest, :at) "
    "ON CONFLICT (name) DO UPDATE SET revision = excluded.revision, body = excluded.body, digest = excluded.digest, "
    "updated_at = excluded.updated_at WHERE documents.revision = :was"
)


class SharedDocument(Struct, frozen=True):
    """A document as the server has it."""

    revision: int
    digest: str


@asynccontextmanager
async def sharing(open_db: Callable[[], Awaitable[Database]], state: Path) -> AsyncIterator["SharedDocuments"]:
    """Shares the documents of the home at `state` for as long as the block lasts."""
    home = SharedDocuments(open_db, state)
    await asyncio.to_thread(home.start)
    shared_homes[state] = home
    try:
        yield home
    finally:
        del shared_homes[state]
        await asyncio.to_thread(home.stop)


class SharedDocuments:
    """The documents of one home. Its work is done in a thread of its own, so that changes need no event loop."""

    def __init__(self, open_db: Callable[[], Awaitable[Database]], state: Path) -> None:
        self._open_db = open_db
        self._state = state
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="documents", daemon=True)
        self._one = threading.RLock()
        """Held by the thread that changes something here."""
        self._holding: _Held | None = None
        self._known: dict[str, SharedDocument] = {}
        self._seen: dict[str, Identity | None] = {}
        """What the files were when they were last compared."""

    def start(self) -> None:
        self._thread.start()
        try:
            self._wait(self._begin(), None)
        except BaseException:
            self._end_thread()
            raise

    def stop(self) -> None:
        try:
            self._wait(self._end(), None)
        finally:
            self._end_thread()

    @contextmanager
    def changing(self, paths: Sequence[Path]) -> Iterator[None]:
        with self._one:
            if self._holding is not None:  # a change inside a change: of the audit log, for example
                yield
                return
            held = self._holding = self._wait(self._hold(paths))
            try:
                yield
            except BaseException:
                self._wait(self._let_go(held, undo=True))
                raise
            else:
                self._wait(self._let_go(held, undo=False))
            finally:
                self._holding = None

    def _wait(self, work: Coroutine[Any, Any, T], seconds: float | None = WAIT_SECONDS) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(seconds)
        except TimeoutError as error:
            future.cancel()
            raise StateError(
                "the database does not answer, and this is shared by all gateways: nothing was changed. Try again."
            ) from error

    def _end_thread(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # In the thread.

    def _busy(self) -> bool:
        """Whether a change is going on, which nothing may come between."""
        return self._holding is not None

    async def _begin(self) -> None:
        self._db = await self._open_db()
        await self._sweep()
        self._keeping = [
            asyncio.create_task(self._keep(), name="documents: sweep"),
            asyncio.create_task(self._follow(), name="documents: news"),
        ]

    async def _end(self) -> None:
        for task in self._keeping:
            task.cancel()
        await asyncio.gather(*self._keeping, return_exceptions=True)
        with contextlib.suppress(StateError):
            await self._sweep()
        await self._db.close()

    async def _keep(self) -> None:
        for count in itertools.count(1):
            await asyncio.sleep(SWEEP_SECONDS)
            try:
                await (self._sweep() if count % ASK_EVERY == 0 else self._send_changed())
            except (StateError, OSError) as error:
                log.warning("shared documents: %s", error)

    async def _follow(self) -> None:
        async with self._db.listen(TOPIC) as news:
            async for name in news:
                if not self._busy():
                    with contextlib.suppress(StateError):
                        await self._pull(await self._db.read(f"{_ALL} WHERE name = :name", {"name": name}))

    async def _sweep(self) -> None:
        """Takes what others changed, and sends what was changed here outside of a block."""
        if not self._busy():
            await self._take_changed()
            await self._send_changed()

    async def _take_changed(self) -> None:
        rows = await self._db.read("SELECT name, revision FROM documents")
        newer = [row["name"] for row in rows if row["revision"] > self._revision(row["name"])]
        for name in newer:
            await self._pull(await self._db.read(f"{_ALL} WHERE name = :name", {"name": name}))
        for name in sorted(set(self._known) - {row["name"] for row in rows}):
            if not self._busy():
                del self._known[name]
                self._path(name).unlink(missing_ok=True)

    async def _send_changed(self) -> None:
        for path in (path for pattern in PATTERNS for path in self._state.glob(pattern)):
            name = path.relative_to(self._state).as_posix()
            seen = identity_at(path)
            if name not in self._seen or self._seen[name] != seen:
                if self._busy():
                    return
                self._note(await transact(self._db, partial(self._push, names=[name]), f"document:{name}"))
                self._seen[name] = seen

    async def _hold(self, paths: Sequence[Path]) -> "_Held":
        names = sorted(path.relative_to(self._state).as_posix() for path in paths)
        while True:
            stack = contextlib.AsyncExitStack()
            try:
                tx = await stack.enter_async_context(self._db.transaction(f"document:{names[0]}"))
                await self._pull(await self._rows(tx, names), held=True)
                return _Held(names, stack, tx, {name: _read(path) for name, path in self._files(names)})
            except BaseException as error:
                await stack.aclose()
                if not isinstance(error, TransactionBroken):
                    raise

    async def _rows(self, tx: Transaction, names: Sequence[str]) -> list[Row]:
        like = f"{_ALL} WHERE name = :name OR substr(name, 1, length(:below)) = :below"
        return [row for name in names for row in await tx.read(like, {"name": name, "below": f"{name}/"})]

    async def _let_go(self, held: "_Held", *, undo: bool) -> None:
        sent: list[_Sent] = []
        try:
            try:
                async with held.stack:
                    if not undo:
                        sent = await self._push(held.tx, held.names)
            except TransactionBroken:
                if not undo:
                    sent = await transact(self._db, partial(self._push_again, held), f"document:{held.names[0]}")
            self._note(sent)
        except BaseException:
            undo = True
            for name in held.before:
                self._known[name] = SharedDocument(0, "")  # whether the server has it, the next look tells
            raise
        finally:
            if undo:
                self._put_back(held)
        for each in sent:
            if each.taken:
                await self._db.notify(TOPIC, each.name)

    def _put_back(self, held: "_Held") -> None:
        for name, path in self._files(held.names):
            before = held.before.get(name)
            if before is None:
                path.unlink(missing_ok=True)
            elif before != _read(path):
                replace_file(path, before)
            self._seen[name] = identity_at(path)

    async def _pull(self, rows: Sequence[Row], *, held: bool = False) -> None:
        """Writes the files of documents that are newer than ours, unless a change is going on here."""
        for row in rows:
            name, path = row["name"], self._path(row["name"])
            if (self._busy() and not held) or row["revision"] <= self._revision(name):
                continue
            body, mine = decode_body(row["body"]), _read(path)
            if mine is not None and mine != body and name not in self._known:
                replace_file(path.with_name(f"{path.name}.own"), mine)  # of before this gateway joined the others
            if mine != body:
                replace_file(path, body)
            self._known[name] = SharedDocument(row["revision"], row["digest"])
            self._seen[name] = identity_at(path)

    async def _push(self, tx: Transaction, names: Sequence[str]) -> "list[_Sent]":
        """Sends what was changed here of the documents that `names` stand for; `_note` it once it is committed."""
        sent = []
        for name, path in self._files(names):
            seen, body, known = identity_at(path), _read(path), self._known.get(name)
            digest = hashlib.sha256(body).hexdigest() if body is not None else ""
            if digest == (known.digest if known is not None else ""):
                continue
            revision = known.revision if known is not None else 0
            values = {"name": name, "was": revision, "now": revision + 1, "digest": digest}
            if body is None:
                done = await tx.write("DELETE FROM documents WHERE name = :name AND revision = :was", values)
            else:
                values |= {"body": encode_body(body), "at": time.time_ns() // 1_000_000}
                done = await tx.write(_REPLACE, values)
            made = SharedDocument(revision + 1, digest) if body is not None else None
            sent.append(_Sent(name, bool(done), made, seen))
        return sent

    async def _push_again(self, held: "_Held", tx: Transaction) -> "list[_Sent]":
        """The same after the server went away, which let others in: only if they have changed nothing of it."""
        known = {name: known.revision for name, _ in self._files(held.names) if (known := self._known.get(name))}
        if {row["name"]: row["revision"] for row in await self._rows(tx, held.names)} != known:
            raise StateError("another gateway has changed this while the database was away; nothing was changed here")
        return await self._push(tx, held.names)

    def _note(self, sent: "Sequence[_Sent]") -> None:
        for each in sent:
            if not each.taken:
                log.warning("%s was changed by another gateway at the same time: its version counts", each.name)
                self._known[each.name] = SharedDocument(0, "")
            elif each.made is None:
                self._known.pop(each.name, None)
            else:
                self._known[each.name] = each.made
                self._seen[each.name] = each.seen

    def _files(self, names: Sequence[str]) -> list[tuple[str, Path]]:
        """The documents that `names` stand for, also those that are gone."""
        found: dict[str, Path] = {}
        for name in names:
            path = self._path(name)
            if path.is_dir():
                below = [each for pattern in PATTERNS for each in self._state.glob(pattern) if path in each.parents]
                found |= {each.relative_to(self._state).as_posix(): each for each in below}
            else:
                found[name] = path
            found |= {each: self._path(each) for each in self._known if each.startswith(f"{name}/")}
        return sorted(found.items())

    def _path(self, name: str) -> Path:
        return self._state / name

    def _revision(self, name: str) -> int:
        return self._known[name].revision if name in self._known else 0


class _Held(Struct):
    """Documents that a block changes, and the transaction that keeps others from it."""

    names: Sequence[str]
    stack: contextlib.AsyncExitStack
    tx: Transaction
    before: dict[str, bytes | None]
    """What the files were, to put them back."""


class _Sent(Struct):
    """A document on its way to the server."""

    name: str
    taken: bool
    """False when others changed it too: theirs counts."""
    made: SharedDocument | None
    """None when it was deleted."""
    seen: Identity | None
    """The file that was sent."""


async def put_document(db: Database, name: str, body: bytes) -> None:
    """Adds a document that is not there yet."""
    digest = hashlib.sha256(body).hexdigest()
    values = {"name": name, "was": 0, "now": 1, "body": encode_body(body), "digest": digest}
    await db.write(_REPLACE, {**values, "at": time.time_ns() // 1_000_000})


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, IsADirectoryError):
        return None


def encode_body(body: bytes) -> str:
    """A body as text; what is none is kept in another form."""
    with contextlib.suppress(UnicodeDecodeError):
        if b"\0" not in body and not body.startswith(b"="):
            return body.decode()
    return "=" + base64.b64encode(body).decode()


def decode_body(text: str) -> bytes:
    return base64.b64decode(text[1:]) if text.startswith("=") else text.encode()
