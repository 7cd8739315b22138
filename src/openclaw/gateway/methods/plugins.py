"""`plugins.*`: which plugins there are and how they fare; and the methods that plugins brought themselves."""

import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from openclaw.core.plugin import Method as PluginMethod
from openclaw.gateway.bus import EventBus
from openclaw.gateway.desk import SessionService
from openclaw.gateway.plugins import PluginRegistry
from openclaw.plugins.calling import called
from openclaw.wire.caller import Caller
from openclaw.wire.params.plugins import PluginsListParams, PluginsReloadParams
from openclaw.wire.rpc import MethodRegistry, RpcMethod
from openclaw.wire.scopes import ADMIN, READ

if TYPE_CHECKING:
    from openclaw.plugins.running import PluginStatus

STATES = {
    "running": "enabled",
    "starting": "enabled",
    "off": "disabled",
    "held": "needs-setup",
    "quarantined": "error",
    "broken": "error",
}


def methods(desk: SessionService) -> list[RpcMethod]:
    extensions = desk.app.extensions

    async def listed(params: PluginsListParams, caller: Caller) -> Any:
        await extensions.ready()
        statuses = extensions.statuses()
        return {
            "generation": extensions.generation,
            "plugins": [entry(status) for status in statuses],
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
            status = await extensions.reload(name)
            warnings += [f"{name}: {note}" for note in ([status.why] if status.why else []) + list(status.notes)]
        return {
            "ok": True,
            "pluginIds": names,
            "restartRequired": False,
            "runtime": {"operationId": str(uuid.uuid4()), "generation": extensions.generation, "pluginIds": names},
            "warnings": warnings,
        }

    return [
        RpcMethod("plugins.list", PluginsListParams, listed, READ),
        RpcMethod("plugins.reload", PluginsReloadParams, reload, ADMIN),
    ]


def entry(status: "PluginStatus") -> dict[str, Any]:
    """A plugin as `plugins.list` gives it."""
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


def health(extensions: PluginRegistry) -> dict[str, Any]:
    """What `health` says of plugins."""
    statuses = extensions.statuses()
    return {
        "loaded": [status.id for status in statuses if status.state == "running"],
        "errors": [
            {"id": status.id, "error": status.why} for status in statuses if status.state in ("quarantined", "broken")
        ],
        "unavailable": [status.id for status in statuses if status.state == "held"],
    }


def serve_methods(
    extensions: PluginRegistry, registry: MethodRegistry, bus: EventBus, also: Callable[[], None]
) -> None:
    """Methods of plugins are answered while their plugin runs; who listens hears when one comes or goes."""
    extensions.methods_taken = registry.own
    registry.foreign = lambda: {name: _served(each) for name, each in extensions.methods().items()}

    def changed() -> None:
        bus.publish("plugins.changed", {"generation": extensions.generation})
        also()

    extensions.changed = changed


def _served(method: PluginMethod) -> RpcMethod:
    async def handler(params: Mapping[str, Any], caller: Caller) -> Any:
        return await called(method.run, params)

    return RpcMethod(method.name, dict, handler, method.scope)
