"""The paths that chat platforms call. Each platform proves itself by its account's own secret."""

import asyncio
import logging
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from openclaw.channels.manager import ChannelManager
from openclaw.core.channel import ChannelWebhook, ChannelWebhookAnswer
from openclaw.core.errors import OpenClawError
from openclaw.gateway.server import read_body

log = logging.getLogger("openclaw.gateway.http")

BODY_BYTES = 1_000_000
"""A platform's call holds text and the names of files, never files."""
READ_SECONDS = 30.0


class ChannelWebhookRoutes(BaseRoute):
    """Matches the paths of the accounts that are connected now."""

    def __init__(self, channels: ChannelManager) -> None:
        self._channels = channels

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        found = scope["type"] == "http" and self._channels.has_webhook(scope["path"])
        return (Match.FULL, {}) if found else (Match.NONE, {})

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            answer = await self._answer(request)
        except ClientDisconnect:
            return
        except HTTPException as error:
            answer = ChannelWebhookAnswer(status=error.status_code)
        except OpenClawError as error:
            log.warning("%s: a platform's call could not be taken: %s", scope["path"], error.message)
            answer = ChannelWebhookAnswer(status=503)
        # A bug ends with its connection, and the platform calls again.
        except Exception:
            log.exception("%s failed", scope["path"])
            answer = ChannelWebhookAnswer(status=500)
        close = {"connection": "close"} if answer.status in (408, 413) else {}
        text = answer.text or ("" if answer.status < 400 else HTTPStatus(answer.status).phrase)
        await PlainTextResponse(text, answer.status, close)(scope, receive, send)

    async def _answer(self, request: Request) -> ChannelWebhookAnswer:
        if request.method not in ("GET", "POST"):
            return ChannelWebhookAnswer(status=405)
        try:
            async with asyncio.timeout(READ_SECONDS):
                body = await read_body(request, BODY_BYTES)
        except TimeoutError:
            return ChannelWebhookAnswer(status=408)
        call = ChannelWebhook(
            body=body, headers=dict(request.headers), method=request.method, query=dict(request.query_params)
        )
        return await self._channels.take_webhook(request.url.path, call)
