"""The home of this process: its environment, its configuration and the editor of it."""

import os

from openclaw.config.edit import Editor
from openclaw.config.load import LoadedConfig, load
from openclaw.models import registry
from openclaw.process.environment import Environment


def read_home() -> tuple[Environment, LoadedConfig]:
    environment = Environment.of_process()
    return environment, load(environment.home, environment.environ)


def open_editor() -> Editor:
    environment = Environment.of_process()
    return Editor(environment.home, environment.environ)


def shell_key_hint() -> str:
    """What to do with a key that this shell has and a gateway without a model has not; nothing when there is none."""
    for facts in registry.load().providers:
        for name in facts.env:
            if os.environ.get(name, "").strip():
                return (
                    f"{name} is set in this shell, and the running gateway does not have it: "
                    f"`openclaw models auth {facts.id} --from-env` tries it and hands it over."
                )
    return ""
