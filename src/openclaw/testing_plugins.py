"""The address of `openclaw.testing.plugins` before the kit was a package."""

from openclaw.testing.plugins import *  # noqa: F403
