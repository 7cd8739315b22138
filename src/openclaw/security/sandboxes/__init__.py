"""Sandboxes for tools: which session gets one, and the engines that provide it.

`policy` resolves the settings and decides (pure), `service` (`SandboxService`) builds the sandbox of a session, prunes
and explains. Engines implement `core.sandbox.Sandbox`: `bubblewrap`, `docker` (also Podman); `service` picks one.

Start with `policy`.
"""
