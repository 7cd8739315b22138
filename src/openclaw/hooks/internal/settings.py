"""Settings of `hooks.internal`: small programs of your own that are told what happens."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import field

from openclaw.core.secret import Secret
from openclaw.core.settings import Count, Settings, doc


class HookEntrySettings(Settings, frozen=True):
    """`hooks.internal.entries.<key>`: one hook."""

    enabled: Annotated[bool | None, doc("run it; a hook of a workspace runs only when this says true")] = None
    env: Annotated[Mapping[str, Secret], doc("variables its handler gets")] = field(default_factory=dict)
    timeout_ms: Annotated[Count | None, doc("longest run of its handler")] = None
    messages: Annotated[Count | None, doc("session-memory: how many of the last messages are kept; 15")] = None
    paths: Annotated[tuple[str, ...], doc("bootstrap-extra-files: which files, with * and **")] = ()
    patterns: Annotated[tuple[str, ...], doc("bootstrap-extra-files: the same as paths, used when that is empty")] = ()
    files: Annotated[tuple[str, ...], doc("bootstrap-extra-files: the same, used when both are empty")] = ()
    config: Annotated[Mapping[str, Any], doc("values the hook itself defines; its handler gets them")] = field(
        default_factory=dict
    )


class HookLoadSettings(Settings, frozen=True):
    """`hooks.internal.load`: where hooks are looked for, beside the usual places."""

    extra_dirs: Annotated[tuple[str, ...], doc("more directories with hooks; ~ stands for the home directory")] = ()


class InternalHooksSettings(Settings, frozen=True):
    """`hooks.internal`: handlers for what happens inside."""

    enabled: Annotated[
        bool | None, doc("false: none runs; true: all that can, or those named in entries; absent: those named")
    ] = None
    load: Annotated[HookLoadSettings, doc("where hooks are looked for")] = HookLoadSettings()
    entries: Annotated[Mapping[str, HookEntrySettings], doc("single hooks by key")] = field(default_factory=dict)
    timeout_ms: Annotated[Count, doc("longest run of a handler that names no limit of its own")] = 15_000

    @property
    def wanted(self) -> bool:
        """Whether any hook at all can run; if not, nobody needs to look for them."""
        if self.enabled is None:
            return any(entry.enabled is not False for entry in self.entries.values()) or bool(self.load.extra_dirs)
        return self.enabled
