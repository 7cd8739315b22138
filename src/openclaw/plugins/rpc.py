"""RPC methods `plugins.*` and `install.check`, with their parameter types."""

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from openclaw.core.hooks import BeforeInstall, HookContext, InstallFinding
from openclaw.plugins.hooks import points
from openclaw.plugins.hooks.dispatch import HookDispatcher, audit_change
from openclaw.plugins.registry import PluginRegistry
from openclaw.protocol.params import NonEmpty, NoParams, Params
from openclaw.protocol.rpc import Caller, RpcMethod
from openclaw.protocol.scopes import ADMIN, READ
from openclaw.security.audit_log import AuditLog

if TYPE_CHECKING:
    from openclaw.plugins.manager import PluginStatus


class InstallCheckParams(Params, frozen=True, kw_only=True):
    """Params of `install.check`: a staged install, in a directory the gateway can read."""

    target_type: Literal["skill", "plugin", "hook"]
    target_name: NonEmpty
    source_path: NonEmpty
    spec: str
    tree_sha256: NonEmpty
    mode: Literal["install", "update"] = "install"
    findings: tuple[InstallFinding, ...] = ()


def install_methods(plugins: PluginRegistry, hooks: HookDispatcher, audit: AuditLog) -> list[RpcMethod]:
    async def check(params: InstallCheckParams, caller: Caller) -> Any:
        await plugins.ready()  # a guard that is still starting has a say too
        if not hooks.has("before_install"):
            return {"blocked": False, "findings": []}
        event = msgspec.convert(msgspec.to_builtins(params), BeforeInstall)
        merged = await hooks.ask(points.INSTALL, event, HookContext(trigger="system"))
        what = f"{params.mode} of {params.target_type} {params.target_name}"
        await audit.record([audit_change("before_install", change, note=what) for change in merged.changes])
        answer: dict[str, Any] = {
            "blocked": merged.blocked is not None,
            "findings": [msgspec.to_builtins(finding) for finding in merged.findings],
        }
        if merged.blocked is not None:
            answer |= {"plugin": merged.blocked.plugin, "reason": merged.blocked.text}
        return answer

    return [RpcMethod("install.check", InstallCheckParams, check, ADMIN)]


Digest = Annotated[str, Meta(pattern="^[a-f0-9]{64}$")]


class PluginReloadTarget(Params, frozen=True):
    plugin_id: NonEmpty
    install_hash: Digest | None = None
    source_digests: Mapping[str, Digest] | None = None


class ReviewToken(Params, frozen=True):
    review_token: NonEmpty


class PluginsReloadParams(Params, frozen=True):
    plugins: Annotated[tuple[PluginReloadTarget, ...], Meta(min_length=1, max_length=64)]
    acknowledge_capabilities: ReviewToken | None = None


STATES = {
    "running": "enabled",
    "starting": "enabled",
    "off": "disabled",
    "held": "needs-setup",
    "quarantined": "error",
    "broken": "error",
}


def plugins_methods(plugins: PluginRegistry) -> list[RpcMethod]:
    async def list_plugins(params: NoParams, caller: Caller) -> Any:
        await plugins.ready()
        statuses = plugins.statuses()
        return {
            "generation": plugins.generation,
            "plugins": [plugin_row(status) for status in statuses],
            "diagnostics": [
                {"pluginId": status.id, "level": "warn", "message": note}
                for status in statuses
                for note in status.notes
            ],
            "mutationAllowed": False,
        }

    async def reload(params: PluginsReloadParams, caller: Caller) -> Any:
        warnings = []
        names = [target.plugin_id for target in params.plugins]
        for name in names:
            status = await plugins.reload(name)
            warnings += [f"{name}: {note}" for note in (status.why, *status.notes) if note]
        return {
            "ok": True,
            "pluginIds": names,
            "restartRequired": False,
            "runtime": {"operationId": str(uuid.uuid4()), "generation": plugins.generation, "pluginIds": names},
            "warnings": warnings,
        }

    return [
        RpcMethod("plugins.list", NoParams, list_plugins, READ),
        RpcMethod("plugins.reload", PluginsReloadParams, reload, ADMIN),
    ]


def plugin_row(status: "PluginStatus") -> dict[str, Any]:
    """A plugin as `plugins.list` shows it."""
    manifest = status.plugin.manifest if status.plugin else None
    optional = {
        "description": manifest.description if manifest else "",
        "version": manifest.version if manifest else "",
        "origin": status.plugin.source if status.plugin else "",
        "kind": [manifest.kind] if manifest and manifest.kind else [],
        "channelIds": list(status.brings.get("channels", ())),
        "error": status.why,
    }
    return {
        "id": status.id,
        "name": manifest.title if manifest else status.id,
        "installed": status.state != "broken",
        "enabled": status.state in ("running", "starting", "quarantined"),
        "state": STATES[status.state],
        **{name: value for name, value in optional.items() if value},
    }
