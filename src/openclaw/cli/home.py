"""The home of this process: its environment, its configuration and the editor of it."""

from openclaw.config.edit import Editor
from openclaw.config.load import LoadedConfig, load
from openclaw.process.environment import Environment


def read_home() -> tuple[Environment, LoadedConfig]:
    environment = Environment.of_process()
    return environment, load(environment.home, environment.environ)


def open_editor() -> Editor:
    environment = Environment.of_process()
    return Editor(environment.home, environment.environ)
