"""Manifests: read without running anything, and never more than they may be."""

import json
from typing import Any

import pytest

from openclaw.plugins.manifest import MAX_BYTES, PluginManifest, read

GOOD: dict[str, Any] = {"id": "a", "configSchema": {"type": "object"}}


def encoded(**changes: Any) -> bytes:
    return json.dumps({**GOOD, **changes}).encode()


def deep(levels: int) -> bytes:
    return b'{"id": "a", "configSchema": ' + b'{"a":' * levels + b"1" + b"}" * levels + b"}"


BAD = {
    "not JSON": (b"{", "truncated"),
    "not an object": (b"[]", "object"),
    "no id": (json.dumps({"configSchema": {}}).encode(), "id"),
    "no schema": (b'{"id": "a"}', "configSchema"),
    "an id that climbs": (encoded(id="../a"), "id"),
    "an id in capitals": (encoded(id="Abc"), "id"),
    "a schema of text": (encoded(configSchema={"type": "string"}), "object"),
    "too many bytes": (b" " * (MAX_BYTES + 1), "the most"),
    "nested without end": (deep(30_000), "nested"),
    "nested too deep": (deep(100), "levels"),
    "too many values": (encoded(configSchema={"enum": [1] * 30_000}), "values"),
    "too many names": (encoded(channels=["a"] * 1_000), "channels"),
    "a long description": (encoded(description="x" * 5_000), "description"),
    "not UTF-8": (b'{"id": "\xff", "configSchema": {}}', ""),
    "skills elsewhere": (encoded(skills=["../../.ssh"]), "outside"),
    "skills at the root": (encoded(skills=["/etc"]), "outside"),
    "the path of programs": (encoded(permissions={"env": ["PATH"]}), "cannot be asked for"),
    "a library of its own": (encoded(permissions={"env": ["LD_PRELOAD"]}), "cannot be asked for"),
    "a variable that is none": (encoded(permissions={"env": ["a=b"]}), "env"),
    "a kind nobody knows": (encoded(kind="toaster"), "kind"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_manifest_is_refused_with_a_reason(case: str) -> None:
    data, why = BAD[case]
    found = read(data)
    assert isinstance(found, str) and why in found and len(found) < 500


def test_what_it_declares_is_known_by_kind() -> None:
    found = read(encoded(hooks=["agent_end"], contracts={"tools": ["t"], "gatewayMethods": ["a.b"]}, unheardOf=1))
    assert isinstance(found, PluginManifest)
    declared = found.declared()
    assert declared["tools"] == ("t",) and declared["methods"] == ("a.b",) and declared["hooks"] == ("agent_end",)
    assert found.entry == "plugin.py:register" and found.title == "a"
