"""The address of `openclaw.testing.server` before the kit was a package."""

from openclaw.testing.server import *  # noqa: F403
