"""OpenClaw: a personal AI assistant that lives on its owner's machine.

Start reading at `gateway/app.py`, which builds every part, and at ARCHITECTURE.md, which walks one message through them.
Public addresses: `openclaw.plugin` for authors of plugins, `openclaw.testing` for tests of one's own agent.
"""
