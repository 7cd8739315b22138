"""Plugins: code by others that adds tools, hooks, commands, channels, models and HTTP routes to a gateway.

A plugin is a directory with an `openclaw.plugin.json` (`manifest`). `find` discovers plugins and knows which were
accepted, `admit` decides which run and which of their registrations count, `install` adds one. Each
runs in a process of its own: `manager.PluginManager` starts and supervises it through `process.PluginProcess`, `host`
is the program inside that process, `wire` the messages between the two, and `proxies` wraps what the plugin brought
as tools, channels and providers. `registry.PluginRegistry` is what the rest of the gateway asks. `hooks/` holds the
hook points and the HOOK.md handlers.

Start with `manager`, then `registry`. Authors of plugins import `openclaw.plugin`.
"""
