"""OpenClaw: a personal AI assistant that lives on its owner's machine.

Start reading at ARCHITECTURE.md, which walks one message through the house, and at `gateway/app.py`, which builds it.
Public addresses: `openclaw.plugin` for authors of plugins, `openclaw.testing` for tests of one's own agent.
"""
