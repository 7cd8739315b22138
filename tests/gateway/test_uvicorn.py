"""What our server takes from uvicorn's inside. It is pinned below its next version: this says what to look at first."""

import inspect
from importlib.metadata import requires, version

import uvicorn
from packaging.requirements import Requirement
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

HTTP = {
    "__init__": ["self", "config", "server_state", "app_state", "_loop"],
    "connection_made": ["self", "transport"],
    "connection_lost": ["self", "exc"],
    "handle_events": ["self"],
    "on_response_complete": ["self"],
    "handle_websocket_upgrade": ["self", "event"],
    "pause_writing": ["self"],
    "resume_writing": ["self"],
}
SERVER = {"capture_signals": ["self"], "startup": ["self", "sockets"], "main_loop": ["self"]}
SOCKET = ("queue", "conn", "transport", "close_sent", "read_paused", "writable", "loop", "close_timer")


def test_the_methods_we_override_are_there_with_their_parameters() -> None:
    for kind, methods in ((H11Protocol, HTTP), (uvicorn.Server, SERVER)):
        for name, parameters in methods.items():
            assert list(inspect.signature(getattr(kind, name)).parameters) == parameters, f"{kind.__name__}.{name}"


def test_the_attributes_we_read_are_there() -> None:
    written = inspect.getsource(WebSocketsSansIOProtocol)
    assert not [name for name in SOCKET if f"self.{name}" not in written]
    assert "self.cycle" in inspect.getsource(H11Protocol)


def test_only_the_version_we_know_is_installed() -> None:
    wanted = next(one for one in map(Requirement, requires("openclaw-py") or ()) if one.name == "uvicorn")
    assert version("uvicorn") in wanted.specifier
    assert any(bound.operator == "<" for bound in wanted.specifier)
