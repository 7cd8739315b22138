"""Modules that are loaded when something of them is used for the first time, and libraries that few processes use.

Whoever uses one of these libraries takes it from here: a gateway that never meets a mailbox does not carry `imaplib`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = (
    "Deferred",
    "cronsim",
    "difflib",
    "email_utils",
    "http_client",
    "imaplib",
    "mimetypes",
    "pathspec",
    "shlex",
    "tempfile",
)


class Deferred:
    """Stands for a module until something of it is used.

    Type checkers see an ordinary import; for a module of ours, in the file that uses it:

        if TYPE_CHECKING:
            from openclaw.security import shell
        else:
            shell = Deferred("openclaw.security.shell")
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(import_module(self._name), attribute)
        setattr(self, attribute, found)  # found without this detour from now on
        return found


if TYPE_CHECKING:
    import difflib
    import imaplib
    import mimetypes
    import shlex
    import tempfile
    from email import utils as email_utils
    from http import client as http_client

    import cronsim
    import pathspec
else:
    cronsim = Deferred("cronsim")
    difflib = Deferred("difflib")
    email_utils = Deferred("email.utils")
    http_client = Deferred("http.client")
    imaplib = Deferred("imaplib")
    mimetypes = Deferred("mimetypes")
    pathspec = Deferred("pathspec")
    shlex = Deferred("shlex")
    tempfile = Deferred("tempfile")
