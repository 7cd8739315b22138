"""Modules that are loaded when something of them is used for the first time.

Parts of the standard library that few processes use are taken from here: a gateway that never meets a mailbox does not
carry `imaplib`.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = (
    "Deferred",
    "ast",
    "difflib",
    "email_utils",
    "http_client",
    "imaplib",
    "import_msgspec",
    "json",
    "mimetypes",
    "shlex",
    "shutil",
    "signal",
    "tempfile",
    "zoneinfo",
)


class Deferred:
    """Stands for a module until something of it is used.

    Type checkers see an ordinary import. For what is not in the list below, in the file that uses it:

        if TYPE_CHECKING:
            import cronsim
        else:
            cronsim = Deferred("cronsim")
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(import_module(self._name), attribute)
        setattr(self, attribute, found)  # found without this detour from now on
        return found


def import_msgspec() -> None:
    """Imports msgspec without `typing_extensions`, from which it takes only what Python's own `typing` has as well."""
    missing = "typing_extensions" not in sys.modules
    if missing:
        sys.modules["typing_extensions"] = None  # type: ignore[assignment]  # Python's way to say: there is none
    try:
        import_module("msgspec")
    finally:
        if missing:
            del sys.modules["typing_extensions"]


if TYPE_CHECKING:
    import ast
    import difflib
    import imaplib
    import json
    import mimetypes
    import shlex
    import shutil
    import signal
    import tempfile
    import zoneinfo
    from email import utils as email_utils
    from http import client as http_client
else:
    ast = Deferred("ast")
    difflib = Deferred("difflib")
    email_utils = Deferred("email.utils")
    http_client = Deferred("http.client")
    imaplib = Deferred("imaplib")
    json = Deferred("json")
    mimetypes = Deferred("mimetypes")
    shlex = Deferred("shlex")
    shutil = Deferred("shutil")
    signal = Deferred("signal")
    tempfile = Deferred("tempfile")
    zoneinfo = Deferred("zoneinfo")
