"""Hooks: code that is called when something happens in the gateway.

`dispatch.HookDispatcher` calls the handlers, of two kinds. Plugins register at typed points (`points` says how the
answers at each are merged). Directories with a HOOK.md subscribe to named events (`events`): `manifest` and `find`
find them and know which were accepted, `files.HookFiles` registers them, `runner` and `worker` run a handler
in a process of its own, `handlers` has the bundled ones.

Start with `dispatch` for plugins, with `files` for HOOK.md.
"""
