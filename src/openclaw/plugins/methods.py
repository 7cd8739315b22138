"""The gateway's own RPC methods together with those of plugins."""

from collections.abc import Mapping
from typing import Any

from openclaw.core.plugin import Method as PluginMethod
from openclaw.plugins.registry import PluginRegistry
from openclaw.process.tasks import call_function
from openclaw.protocol.rpc import Caller, MethodRegistry, RpcMethod
from openclaw.protocol.scopes import Role


class AllMethods:
    """The gateway's own methods, and those of the plugins that run; no plugin takes the place of one of ours."""

    def __init__(self, own: MethodRegistry, plugins: PluginRegistry) -> None:
        self._own = own
        self._plugins = plugins

    def find(self, name: str) -> RpcMethod | None:
        own = self._own.find(name)
        if own is not None:
            return own
        brought = self._plugins.methods().get(name)
        return _served(brought) if brought is not None else None

    def advertised(self, role: Role = "operator") -> list[str]:
        brought = [_served(each) for name, each in self._plugins.methods().items() if name not in self._own]
        theirs = [method.name for method in brought if method.advertised and role in method.roles]
        return sorted([*self._own.advertised(role), *theirs])


def _served(method: PluginMethod) -> RpcMethod:
    async def handler(params: Mapping[str, Any], caller: Caller) -> Any:
        return await call_function(method.run, params)

    return RpcMethod(method.name, dict, handler, method.scope)
