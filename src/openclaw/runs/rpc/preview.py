"""The prompt that the next message of a session would send."""

from openclaw.config.live import LiveConfig
from openclaw.core.channel import Address
from openclaw.core.keys import SessionKey
from openclaw.core.text import make_origin
from openclaw.prompt.builder import PromptPreview
from openclaw.prompt.rpc import PromptPreviewParams
from openclaw.runs.chat_facts import WEB
from openclaw.runs.inbox import LastRoutes
from openclaw.runs.prepare import TurnPreparer
from openclaw.runs.request import RunRequest
from openclaw.runs.toolset import Toolset
from openclaw.security.tool_policy import is_shared


async def preview_next(
    preparer: TurnPreparer,
    toolset: Toolset,
    routes: LastRoutes,
    live: LiveConfig,
    key: SessionKey,
    asked: PromptPreviewParams,
) -> PromptPreview:
    """The prompt of a message that comes from a channel, from the web page, or from a terminal."""
    owners = live.config.commands.owner_allow_from
    route, channel, address = key.route, asked.channel, None
    if route is not None:
        channel = channel or route.channel
        address = Address(channel=route.channel, to=route.peer, account=route.account or "default", thread=route.thread)
    if channel and channel != WEB:
        last = await routes.of(key)
        address = last if last and last.channel == channel else address
        address = address or await routes.resolve(key, channel, owners=owners)
    guest = asked.guest or (route is not None and route.kind == "direct" and is_shared(key, owners))
    turn = RunRequest(
        run_id="",
        key=key,
        text="",
        model=asked.model,
        place="" if channel else asked.cwd,
        channel=channel,
        surface="control-ui" if channel == WEB else "",
        reply_to=address,
        origins=(make_origin("stranger", "somebody"),) if guest else (),
    )
    return await preparer.preview(turn, toolset, asked.mode)
