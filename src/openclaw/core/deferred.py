"""Modules that are loaded when something of them is used for the first time.

Parts of the standard library that few processes use are taken from here: a gateway that never meets a mailbox does not
carry `imaplib`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = (
    "Deferred",
    "ast",
    "difflib",
    "email_utils",
    "http_client",
    "imaplib",
    "json",
    "mimetypes",
    "shlex",
    "shutil",
    "signal",
    "ssl",
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


if TYPE_CHECKING:
    import ast
    import difflib
    import imaplib
    import json
    import mimetypes
    import shlex
    import shutil
    import signal
    import ssl
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
    ssl = Deferred("ssl")
    tempfile = Deferred("tempfile")
    zoneinfo = Deferred("zoneinfo")
