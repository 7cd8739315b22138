"""`install.check`: what the plugins of the running gateway say to something that a command is about to install.

The operator's own rule (`security.installPolicy`) was asked before this, by the command; nothing here overrules it.
"""

from typing import Any

import msgspec

from openclaw.gateway.desk import SessionService
from openclaw.wire.caller import Caller
from openclaw.wire.params.install import InstallCheckParams
from openclaw.wire.rpc import RpcMethod
from openclaw.wire.scopes import ADMIN


def methods(desk: SessionService) -> list[RpcMethod]:
    async def check(params: InstallCheckParams, caller: Caller) -> Any:
        await desk.app.extensions.ready()  # a guard that is still starting has a say too
        plugged = desk.app.plugged
        if plugged is None or not plugged.hooks.has("before_install"):
            return {"blocked": False, "findings": []}
        from openclaw.core.hooks import BeforeInstall, HookContext
        from openclaw.hooks import points
        from openclaw.turns.hooking import audit_change

        event = msgspec.convert(msgspec.to_builtins(params), BeforeInstall)
        merged = await plugged.hooks.ask(points.INSTALL, event, HookContext(trigger="system"))
        what = f"{params.mode} of {params.target_type} {params.target_name}"
        await desk.app.audit.record([audit_change("before_install", change, note=what) for change in merged.changes])
        answer: dict[str, Any] = {
            "blocked": merged.blocked is not None,
            "findings": [msgspec.to_builtins(finding) for finding in merged.findings],
        }
        if merged.blocked is not None:
            answer |= {"plugin": merged.blocked.plugin, "reason": merged.blocked.text}
        return answer

    return [RpcMethod("install.check", InstallCheckParams, check, ADMIN)]
