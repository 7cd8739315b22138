"""What of a skill's or hook's requirements is missing on this machine."""

import sys
from collections.abc import Callable, Collection, Mapping
from functools import cache

from msgspec import Struct

from openclaw.extensions.front_matter import Requirements
from openclaw.process.environment import find_executable


class MachineFacts(Struct, frozen=True, kw_only=True):
    """Platform, programs, variables and configuration that can be required."""

    platform: str
    """`darwin`, `linux` or `win32`."""
    env: Collection[str]
    """Names of the variables that are set and not empty."""
    has_bin: Callable[[str], bool]
    has_config: Callable[[str], bool]
    """Whether a configuration path has a truthy value."""
    plugins: Collection[str] = ()
    """Enabled plugins."""


class MissingRequirement(Struct, frozen=True, kw_only=True, rename="camel"):
    bins: tuple[str, ...] = ()
    any_bins: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    config: tuple[str, ...] = ()
    os: tuple[str, ...] = ()

    def sentences(self) -> list[str]:
        said = (
            ("only for", self.os),
            ("not set:", self.env),
            ("not configured:", self.config),
            ("not installed:", self.bins),
            ("none of these is installed:", self.any_bins),
        )
        return [f"{what} {', '.join(names)}" for what, names in said if names]


def find_missing(
    requires: Requirements, systems: tuple[str, ...], always: bool, given: Collection[str], machine: MachineFacts
) -> MissingRequirement:
    """What is missing; `given` are variables that the settings of the entry itself provide."""
    elsewhere = systems if systems and machine.platform not in systems else ()
    if elsewhere or always:
        return MissingRequirement(os=elsewhere)
    return MissingRequirement(
        bins=tuple(name for name in requires.bins if not machine.has_bin(name)),
        any_bins=requires.any_bins if not any(machine.has_bin(name) for name in requires.any_bins) else (),
        env=tuple(name for name in requires.env if name not in given and name not in machine.env),
        config=tuple(path for path in requires.config if not machine.has_config(path)),
    )


def look_at_machine(
    variables: Mapping[str, str], is_set: Callable[[str], bool], plugins: Collection[str] = ()
) -> MachineFacts:
    """The facts of this machine, with these variables."""
    path = variables.get("PATH")

    @cache
    def has_bin(name: str) -> bool:
        return find_executable(name, path) is not None

    return MachineFacts(
        platform="linux" if sys.platform.startswith("linux") else sys.platform,
        env=frozenset(name for name, value in variables.items() if value),
        has_bin=has_bin,
        has_config=is_set,
        plugins=plugins,
    )
