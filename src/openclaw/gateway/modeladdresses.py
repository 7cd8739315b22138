"""Where models are asked: an address that changed in the configuration goes on record before anything is sent there."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from openclaw.models.settings import ModelsSettings
from openclaw.store.jsonfile import JsonFile

if TYPE_CHECKING:
    from openclaw.trust.audit import AuditChange
    from openclaw.trust.auditlog import AuditLog


class ModelAddresses:
    """The addresses of `models.providers` as they were the last time somebody used them."""

    def __init__(self, state: Path, audit: "Callable[[], AuditLog]") -> None:
        self._file = JsonFile(
            state / "state" / "model-addresses.json",
            dict[str, str],
            "remove it; the addresses of today are written anew",
        )
        self._audit = audit
        self._settled: ModelsSettings | None = None

    def settle(self, models: ModelsSettings) -> None:
        """Returns when every change is on record. What is configured the first time of all is no change."""
        if models is self._settled:
            return
        now = {name: provider.base_url for name, provider in models.providers.items() if provider.base_url}
        known = self._file.read()
        if now != (known or {}):
            if known is not None:
                self._audit().append(deeds(known, now))
            self._file.write(now)
        self._settled = models


def deeds(before: Mapping[str, str], after: Mapping[str, str]) -> "list[AuditChange]":
    """A deed for every provider that is asked elsewhere now."""
    from openclaw.trust.audit import AuditChange

    return [
        AuditChange(
            plugin="config",
            hook="models",
            field=f"models.providers.{name}.baseUrl",
            before=before.get(name, ""),
            after=after.get(name, ""),
            note=f"{_host(before.get(name))} -> {_host(after.get(name))}",
        )
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]


def _host(url: str | None) -> str:
    """Whom an address names, without a password or a key in it."""
    if not url:
        return "none"
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "no address"
    return f"{parts.scheme}://{parts.hostname or ''}{port}"
