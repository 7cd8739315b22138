"""Requests to a Matrix server, signed in by a token or a password.

What a password has opened is kept in a file, so that a restart is the same device there: transaction ids count per
device, and people see one device instead of dozens.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

import httpx2
import msgspec
from msgspec import Struct

from openclaw.channels.http import translate_errors, unclear
from openclaw.channels.matrix import wire
from openclaw.channels.matrix.settings import MatrixSettings
from openclaw.core.channel import AccountClosed, MessageRefused, TryLater
from openclaw.core.errors import InvalidRequest
from openclaw.core.secret import Secret
from openclaw.models.providers.http import certificates
from openclaw.storage.atomic import JsonFile

ANSWER_SECONDS = 30.0
_API = "/_matrix/client/"


class MatrixSession(Struct, frozen=True, kw_only=True, rename="camel"):
    """A device that is signed in."""

    homeserver: str
    user_id: str
    device_id: str = ""
    access_token: str = ""

    def __repr__(self) -> str:
        return f"MatrixSession({self.user_id}, {self.device_id})"


class MatrixClient:
    """One account's requests. It signs in before the first."""

    def __init__(self, settings: MatrixSettings, stored: JsonFile[MatrixSession]) -> None:
        root = (settings.homeserver or "").rstrip("/")
        self._root = root if "://" in root else f"https://{root}"
        self._settings = settings
        self._stored = stored
        self._session: MatrixSession | None = None
        self._signing_in = asyncio.Lock()
        self._http = httpx2.AsyncClient(verify=certificates(), timeout=ANSWER_SECONDS)

    async def close(self) -> None:
        await self._http.aclose()

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        seconds: float = ANSWER_SECONDS,
        sending: bool = False,
        version: str = "v3",
    ) -> dict[str, Any]:
        """One call of the client-server API; `sending` says that without an answer it may have taken effect."""
        content = None if body is None else msgspec.json.encode(body)
        for attempt in range(2):
            session = await self.sign_in()
            status, answer = await self._request(
                method,
                f"{_API}{version}/{path}",
                session.access_token,
                content,
                query=query,
                seconds=seconds,
                sending=sending,
            )
            if status == 200:
                return answer
            if status == 401 and await self._signed_out(session, answer) and attempt == 0:
                continue
            raise wire.failure(status, answer)
        raise AssertionError("unreachable")

    async def find(self, path: str, version: str = "v3") -> dict[str, Any] | None:
        """What there is under `path`; None when there is nothing, or nothing for us."""
        try:
            return await self.ask("GET", path, version=version)
        except MessageRefused:
            return None

    async def upload(self, name: str, mime: str, size: int, data: AsyncIterator[bytes]) -> str:
        """Stores a file there; gives its mxc address."""
        session = await self.sign_in()
        headers = {"content-type": mime, "content-length": str(size)}
        status, answer = await self._request(
            *("POST", "/_matrix/media/v3/upload", session.access_token, data),
            query={"filename": name},
            seconds=ANSWER_SECONDS * 4,
            headers=headers,
        )
        if status != 200:
            await self._signed_out(session, answer)
            raise wire.failure(status, answer)
        if not (url := wire.text_of(answer, "content_uri")):
            raise TryLater("Matrix stored a file without giving its address")
        return url

    async def download(self, ref: str, limit: int) -> AsyncIterator[bytes]:
        """A file, piece by piece; older servers have it under another path."""
        session, path = await self.sign_in(), wire.decode_media_ref(ref)
        headers = {"authorization": f"Bearer {session.access_token}"}
        try:
            for root in ("/_matrix/client/v1/media/download/", "/_matrix/media/v3/download/"):
                async with self._http.stream("GET", self._root + root + path, headers=headers) as answer:
                    if answer.status_code == 404 and "client/v1" in root:
                        continue
                    if answer.status_code != 200:
                        raise wire.failure(answer.status_code, _object(await answer.aread()))
                    size = int(answer.headers.get("content-length") or 0)
                    async for piece in answer.aiter_bytes():
                        size = max(size, answer.num_bytes_downloaded)
                        if size > limit:
                            raise MessageRefused(f"the file is larger than {limit:,} bytes (mediaMaxMb)")
                        yield piece
                    return
        except httpx2.HTTPError as error:
            raise TryLater(f"Matrix did not give a file: {type(error).__name__}") from None

    async def sign_in(self) -> MatrixSession:
        """Who we are; asks the server the first time, and signs in when there is no token."""
        async with self._signing_in:
            if self._session is None:
                self._session = await self._begin()
            return self._session

    async def sign_out(self) -> None:
        """Makes our token worthless there, and forgets it."""
        try:
            await self.ask("POST", "logout", {})
        except AccountClosed:  # it was worthless already
            pass
        finally:
            self._forget()

    async def _begin(self) -> MatrixSession:
        settings = self._settings
        if settings.access_token:
            token = settings.access_token.reveal()
            status, answer = await self._request("GET", f"{_API}v3/account/whoami", token)
            if status != 200:
                raise wire.failure(status, answer)
            user = wire.text_of(answer, "user_id")
            if not user:
                raise InvalidRequest("the Matrix server does not say who we are")
            device = wire.text_of(answer, "device_id")
            return MatrixSession(homeserver=self._root, user_id=user, device_id=device, access_token=token)
        stored = self._stored.read()
        if stored is not None and stored.homeserver == self._root and _same(stored.user_id, settings.user_id or ""):
            return stored
        return await self._log_in("")

    async def _log_in(self, device: str) -> MatrixSession:
        asked = {
            "type": "m.login.password",
            "identifier": {"type": "m.id.user", "user": self._settings.user_id or ""},
            "password": (self._settings.password or Secret("")).reveal(),
            "initial_device_display_name": self._settings.device_name,
            **({"device_id": device} if device else {}),
        }
        status, answer = await self._request("POST", f"{_API}v3/login", "", msgspec.json.encode(asked))
        if status == 403:
            raise AccountClosed("Matrix: the user or the password is not right: check channels.matrix.userId, password")
        if status != 200:
            raise wire.failure(status, answer)
        session = MatrixSession(
            homeserver=self._root,
            user_id=wire.text_of(answer, "user_id"),
            device_id=wire.text_of(answer, "device_id"),
            access_token=wire.text_of(answer, "access_token"),
        )
        if not session.user_id or not session.access_token:
            raise InvalidRequest("the Matrix server's /login gave no token")
        await asyncio.to_thread(self._stored.write, session)
        return session

    async def _signed_out(self, session: MatrixSession, answer: Mapping[str, Any]) -> bool:
        """Deals with a refused token; true when there is a new one to try with.

        A soft logout asks for the password again, on the same device. Any other was somebody's decision: a person has
        to act, and the next start signs in as a new device.
        """
        if wire.text_of(answer, "errcode") != "M_UNKNOWN_TOKEN" or self._settings.access_token:
            return False
        async with self._signing_in:
            if self._session is not session:
                return True  # another call has signed in meanwhile
            if answer.get("soft_logout") is not True:
                self._forget()
                return False
            self._session = await self._log_in(session.device_id)
            return True

    def _forget(self) -> None:
        if not self._settings.access_token:
            self._session = None
            with suppress(OSError):
                self._stored.path.unlink()

    async def _request(
        self,
        method: str,
        path: str,
        token: str,
        content: bytes | AsyncIterator[bytes] | None = None,
        *,
        query: Mapping[str, str] | None = None,
        seconds: float = ANSWER_SECONDS,
        sending: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, dict[str, Any]]:
        what = path.removeprefix(_API).partition("?")[0].split("/")[1]
        sent = {"content-type": "application/json", **(headers or {})}
        if token:
            sent["authorization"] = f"Bearer {token}"
        try:
            with translate_errors(f"the Matrix server {self._root}", what, sending=sending):
                answer = await self._http.request(
                    method, self._root + path, content=content, params=query, headers=sent, timeout=seconds
                )
        except httpx2.InvalidURL:
            raise AccountClosed(f"channels.matrix.homeserver is not an address: {self._root}") from None
        if answer.status_code != 200:
            return answer.status_code, _object(answer.content)
        try:
            return 200, wire.decode_json(answer.content)
        except InvalidRequest as error:
            raise unclear(f"{error.message} ({what})", sending) from error


def _same(user: str, asked: str) -> bool:
    """Whether `asked`, an id or its first part, is `user`."""
    return asked in (user, user.partition(":")[0], user.partition(":")[0].removeprefix("@"))


def _object(body: bytes) -> dict[str, Any]:
    try:
        return wire.decode_json(body)
    except InvalidRequest:
        return {}
