"""Libraries that are imported with less do the same: each test in a fresh interpreter."""

import json
import subprocess
import sys
from typing import Any

from tests.commandline import PATIENCE

NAMES = """
import json, sys
names = {name: sorted((key, value is None) for key, value in vars(module).items() if not key.startswith("__"))
         for name, module in sys.modules.items() if name.startswith("asyncio")}
print(json.dumps(names))
"""
LEAN = """
import sys
from openclaw.core.lean import import_asyncio
import_asyncio()
import asyncio
assert "ssl" not in sys.modules
"""
ENCRYPTED = """
import contextlib, datetime, json, pathlib, tempfile

async def shout(reader, writer):
    with contextlib.closing(writer):
        writer.write((await reader.readline()).upper())
        await writer.drain()

async def ask(**options):
    reader, writer = await asyncio.open_connection("127.0.0.1", port, **options)
    with contextlib.closing(writer):
        writer.write(b"hello\\n")
        return (await reader.readline()).decode()

async def main():
    global port
    async with await asyncio.start_server(shout, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        plain = await ask()
    assert "ssl" not in sys.modules
    import ssl
    from openclaw.config.settings import TlsSettings
    from openclaw.gateway.http.certificates import load_certificate
    with tempfile.TemporaryDirectory() as state:
        now = datetime.datetime.now(datetime.UTC)
        shown = load_certificate(TlsSettings(enabled=True), pathlib.Path(state), ("localhost",), now)
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    async with await asyncio.start_server(shout, "127.0.0.1", 0, ssl=shown.context) as server:
        port = server.sockets[0].getsockname()[1]
        encrypted = await ask(ssl=trusting)
        try:
            refused = await ask(ssl=ssl.create_default_context())
        except ssl.SSLCertVerificationError:
            refused = "refused"
    print(json.dumps([plain, encrypted, refused]))

asyncio.run(main())
"""

HASHES = """
import hashlib, hmac, json
def digests():
    found = [hashlib.new(name, b"a word").hexdigest() for name in sorted(hashlib.algorithms_guaranteed)
             if not name.startswith("shake")]
    keyed = hmac.new(b"key", b"a word", "sha256"), hmac.new(b"key", b"a word", hashlib.sha1)
    quick = hmac.digest(b"key", b"a word", "sha256").hex()
    named = hashlib.blake2b(b"a word", digest_size=16).hexdigest()
    assert hmac.compare_digest("same", "same") and not hmac.compare_digest("same", "other")
    return [*found, *(each.hexdigest() for each in keyed), quick, named]
"""


def printed(program: str) -> Any:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_asyncio_is_what_it_is_with_ssl_once_somebody_imports_that() -> None:
    assert printed(LEAN + "import ssl" + NAMES) == printed("import asyncio, ssl" + NAMES)


def test_asyncio_encrypts_once_somebody_imports_ssl() -> None:
    assert printed(LEAN + ENCRYPTED) == ["HELLO\n", "HELLO\n", "refused"]


def test_hashes_are_the_same_without_openssl_and_with_it_once_somebody_imports_ssl() -> None:
    usual = printed(HASHES + "print(json.dumps(digests()))")
    lean = "from openclaw.core.lean import import_asyncio, import_hashlib\nimport_hashlib()\nimport_asyncio()"
    look = "import sys\nassert '_hashlib' not in sys.modules\nlean = digests()\n"
    encrypts = "import ssl, _hashlib\nassert hashlib.pbkdf2_hmac is _hashlib.pbkdf2_hmac\n"
    assert printed(lean + HASHES + look + encrypts + "print(json.dumps([lean, digests()]))") == [usual, usual]


def test_msgspec_needs_no_typing_extensions() -> None:
    loads = "import sys\nfrom openclaw.core.lean import import_msgspec\nimport_msgspec()\nimport msgspec, json\n"
    assert printed(loads + "print(json.dumps('typing_extensions' in sys.modules))") is False
    printed(loads + "import typing_extensions\nprint(json.dumps(typing_extensions.__name__))")
