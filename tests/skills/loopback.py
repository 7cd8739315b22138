"""A small web server on this machine, for tests."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextmanager
def serving(pages: Mapping[str, Any]) -> Iterator[str]:
    """Serves `pages` by path: bytes as they are, anything else as JSON; an int is an error of that number."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = pages.get(self.path.split("?")[0], 404)
            self.send_response(page if isinstance(page, int) else 200)
            self.end_headers()
            if not isinstance(page, int):
                self.wfile.write(page if isinstance(page, bytes) else json.dumps(page).encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
