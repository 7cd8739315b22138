"""Whether the nodes are set up alike: what a node tells of its configuration and credentials, and what differs.

Secrets are neither told nor digested: only who has one.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from openclaw.channels.accounts import configured_accounts
from openclaw.config.load import LoadedConfig
from openclaw.config.redact import redact
from openclaw.core.errors import OpenClawError
from openclaw.models.profiles import FILE, ProfileStore

OWN_SECTIONS = frozenset(("gateway", "store", "logging", "meta", "wizard", "$schema", "$include"))
"""Sections about one machine: an address, a file, who changed it last."""


class NodeSetup(Struct, frozen=True):
    """What a node tells of how it is set up."""

    sections: dict[str, str] = {}
    """A digest of each section of its configuration, without secrets."""
    credentials: tuple[str, ...] = ()
    """For whom it has a credential: accounts of channels, and providers of models with the agent they are for."""


def describe_setup(loaded: LoadedConfig, state: Path) -> NodeSetup:
    """What this node tells; reads the files of all agents' credentials."""
    sections = {
        name: hashlib.sha256(json.dumps(redact(section, (name,)), sort_keys=True, default=str).encode()).hexdigest()[
            :12
        ]
        for name, section in loaded.raw.items()
        if name not in OWN_SECTIONS
    }
    accounts = configured_accounts(loaded.config.channels, loaded.variables)
    found = {f"channel {channel} ({account})" for channel, account in accounts}
    for path in (state / "agents").glob(f"*/agent/{FILE}"):
        try:
            stored = ProfileStore.of_agent(path.parent).load()
        except OpenClawError:
            continue  # the next use of it says what is wrong
        found |= {f"models of {profile.provider} (agent {path.parts[-3]})" for profile in stored.profiles.values()}
    return NodeSetup(sections, tuple(sorted(found)))


def differences(setups: Mapping[str, NodeSetup]) -> list[str]:
    """What nodes, by their names, do not have in common, each with what to do."""
    if len(setups) < 2:
        return []
    found = []
    names = {name for setup in setups.values() for name in setup.sections}
    differing = [name for name in sorted(names) if len({setup.sections.get(name) for setup in setups.values()}) > 1]
    if differing:
        groups = _groups(
            {node: tuple(setup.sections.get(name) for name in differing) for node, setup in setups.items()}
        )
        found.append(
            f"the configuration differs in {', '.join(differing)}: {' / '.join(groups)}. Give every node the same file"
        )
    for what in sorted({each for setup in setups.values() for each in setup.credentials}):
        without = sorted(node for node, setup in setups.items() if what not in setup.credentials)
        if without:
            found.append(f"no credential for {what} on {', '.join(without)}. Enter it there, too")
    return found


def told_differences(figures: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The same from what the nodes told of themselves; those that have not told yet do not count."""
    return differences(
        {name: msgspec.convert(told["setup"], NodeSetup) for name, told in figures.items() if "setup" in told}
    )


def _groups(told: Mapping[str, Sequence[str | None]]) -> list[str]:
    """The nodes that have the same, together."""
    groups: dict[Sequence[str | None], list[str]] = {}
    for node, value in sorted(told.items()):
        groups.setdefault(value, []).append(node)
    return [", ".join(nodes) for nodes in groups.values()]
