"""A hook as it was found, and what its HOOK.md says of it. Pure."""

from typing import Literal

from msgspec import Struct

Source = Literal["openclaw-bundled", "openclaw-plugin", "openclaw-extra", "openclaw-managed", "openclaw-workspace"]
Kind = Literal["python", "program", "bundled"]


class HookRequirements(Struct, frozen=True, kw_only=True):
    """What must be there before the hook makes sense."""

    bins: tuple[str, ...] = ()
    any_bins: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    config: tuple[str, ...] = ()


class HookManifest(Struct, frozen=True, kw_only=True):
    """A hook in its own words."""

    name: str
    description: str = ""
    homepage: str = ""
    emoji: str = ""
    hook_key: str = ""
    events: tuple[str, ...] = ()
    export: str = "handler"
    os: tuple[str, ...] = ()
    always: bool = False
    requires: HookRequirements = HookRequirements()
    notes: tuple[str, ...] = ()
    """What was odd but could be read all the same."""

    @property
    def key(self) -> str:
        """Its name under `hooks.internal.entries`."""
        return self.hook_key or self.name


class HookDirectory(Struct, frozen=True, kw_only=True):
    """One directory with a HOOK.md."""

    manifest: HookManifest
    source: Source
    directory: str
    """Its real path."""
    handler: str = ""
    """The file that is run; empty for a bundled hook, whose handler is part of OpenClaw."""
    kind: Kind = "program"
    problem: str = ""
    """Why it cannot be run, whatever the settings say."""
    workspace: str = ""
    """For a hook of a workspace: that workspace."""

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def bundled(self) -> bool:
        return self.source == "openclaw-bundled"


class HookProblem(Struct, frozen=True):
    """Something that was passed over, and why."""

    path: str
    message: str


class FoundHooks(Struct, frozen=True, kw_only=True):
    """Everything a look brought to light."""

    hooks: tuple[HookDirectory, ...] = ()
    diagnostics: tuple[HookProblem, ...] = ()
