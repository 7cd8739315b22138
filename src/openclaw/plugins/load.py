"""Running a plugin's `register` and taking what it brings: in its own process, or here for one that is trusted."""

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

from openclaw.core.errors import InvalidRequest
from openclaw.core.plugin import Api, Brought


def register(api: Api, entry: str) -> Brought:
    """What the plugin behind `entry` (`file.py:function` or `module:function`) registers."""
    place, _, name = entry.partition(":")
    module = _file(api, place) if place.endswith(".py") else importlib.import_module(place)
    function = getattr(module, name or "register", None)
    if not callable(function):
        raise InvalidRequest(f"{place} has no function {name or 'register'}")
    given = function(api)
    if given is not None:
        if hasattr(given, "close"):
            given.close()
        raise InvalidRequest(f"{name or 'register'} must be a plain function that gives nothing back")
    return api.brought()


def _file(api: Api, place: str) -> Any:
    path = (api.directory / place).resolve()
    if not path.is_relative_to(api.directory.resolve()):
        raise InvalidRequest(f"{place} lies outside the plugin")
    if not path.is_file():
        raise InvalidRequest(f"there is no {place} in the plugin")
    _forget(f"{api.directory.resolve()}{os.sep}")
    name = f"openclaw_plugin_{api.id.replace('-', '_')}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _forget(directory: str) -> None:
    """Takes modules below `directory` out of memory, so that a plugin that is started again is read again."""
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(directory):
            del sys.modules[name]
    importlib.invalidate_caches()


def describe_error(error: BaseException, directory: Path) -> str:
    """An exception of a plugin's code as one line: what, and where in the plugin."""
    where = ""
    trace = error.__traceback__
    while trace is not None:
        file = Path(trace.tb_frame.f_code.co_filename)
        if file.is_relative_to(directory):
            where = f" ({file.relative_to(directory)}:{trace.tb_lineno})"
        trace = trace.tb_next
    said = " ".join(str(error).split())[:300]
    name = type(error).__name__
    return f"{name}: {said}{where}" if said else f"{name}{where}"
