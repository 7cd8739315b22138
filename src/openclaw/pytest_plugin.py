"""The pytest plugin of the kit; installed as an entry point."""

from openclaw.testing.pytest_plugin import *  # noqa: F403
