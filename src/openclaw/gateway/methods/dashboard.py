"""`dashboard.link`: a one-time address for the web page."""

from typing import Any

from openclaw.core.clock import Clock, millis
from openclaw.gateway.links import LoginCodes
from openclaw.wire.caller import Caller
from openclaw.wire.params.kinds import NoParams
from openclaw.wire.rpc import RpcMethod
from openclaw.wire.scopes import ADMIN


def methods(links: LoginCodes, base_path: str, clock: Clock) -> list[RpcMethod]:
    async def link(params: NoParams, caller: Caller) -> Any:
        code, expires = links.make(millis(clock))
        return {"path": f"{base_path}/#code={code}", "expiresAtMs": expires}

    return [RpcMethod("dashboard.link", NoParams, link, ADMIN)]
