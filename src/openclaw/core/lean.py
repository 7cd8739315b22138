"""Imports libraries without what they would take along although hardly anybody needs it."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module, reload
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType


@contextmanager
def _without(name: str) -> Iterator[None]:
    """What is imported inside finds no module of this name."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # Python's way to say that there is none
    try:
        yield
    finally:
        del sys.modules[name]


def import_msgspec() -> None:
    """Imports msgspec without `typing_extensions`, from which it takes only what Python's own `typing` has as well."""
    with _without("typing_extensions"):
        import_module("msgspec")


_HASHES = (
    "_md5",
    "_sha1",
    "_sha3",
    "_blake2",
    *(("_sha2",) if sys.version_info >= (3, 12) else ("_sha256", "_sha512")),
)


def import_hashlib() -> None:
    """Imports hashlib and hmac with Python's own hashes and without OpenSSL, which comes when somebody encrypts.

    Some systems build a Python that has no hashes of its own: then as always.
    """
    if "hashlib" in sys.modules or not all(map(find_spec, _HASHES)):
        return
    with _without("_hashlib"):
        import_module("hashlib")
        import_module("hmac")


def import_asyncio() -> None:
    """Imports asyncio without `ssl`, which it gets when somebody imports that.

    Nobody can ask asyncio for encryption before: whoever does hands it something from `ssl`.
    """
    if "asyncio" in sys.modules:
        return
    with _without("ssl"):
        import_module("asyncio")
    sys.meta_path.insert(0, _SslFinder())


class _SslFinder:
    """Waits for the import of `ssl`."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "ssl":
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        assert spec is not None and spec.loader is not None
        execute = spec.loader.exec_module

        def execute_and_tell(module: ModuleType) -> None:
            execute(module)
            _tell_asyncio(module)

        spec.loader.exec_module = execute_and_tell  # type: ignore[method-assign]
        return spec


def _tell_asyncio(ssl: ModuleType) -> None:
    for name, module in [*sys.modules.items()]:
        if name.startswith("asyncio.") and getattr(module, "ssl", ssl) is None:
            module.ssl = ssl  # type: ignore[attr-defined]
    reload(sys.modules["asyncio.sslproto"])  # it makes more of ssl than a name
    for name in ("hashlib", "hmac"):
        if name in sys.modules:
            reload(sys.modules[name])
