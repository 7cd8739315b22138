"""Settings of `plugins` and `hooks.internal`."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from openclaw.core.secret import Secret
from openclaw.core.settings import Count, Settings


class HookSettings(Settings, frozen=True):
    """`plugins.entries.<id>.hooks`: what an operator lets one plugin do, and for how long."""

    allow_prompt_injection: bool = True
    """it may add text to prompts"""
    allow_prompt_replace: bool = False
    """it may put a system prompt of its own in place of ours"""
    allow_model_override: bool | None = None
    """it may choose another configured model; if absent, only what comes with OpenClaw may"""
    allow_conversation_access: bool = False
    """it may see what is said"""
    timeout_ms: Annotated[int, Meta(ge=1, le=600_000)] | None = None
    """longest time for each handler"""
    timeouts: dict[str, Annotated[int, Meta(ge=1, le=600_000)]] = field(default_factory=dict)
    """longest time at one point, by its name"""


class HookEntrySettings(Settings, frozen=True):
    """`hooks.internal.entries.<key>`: one hook."""

    enabled: bool | None = None
    """run it; a hook of a workspace runs only when this says true"""
    env: Mapping[str, Secret] = field(default_factory=dict)
    """variables its handler gets"""
    timeout_ms: Count | None = None
    """longest run of its handler"""
    messages: Count | None = None
    """session-memory: how many of the last messages are kept; 15"""
    paths: tuple[str, ...] = ()
    """bootstrap-extra-files: which files, with * and **"""
    patterns: tuple[str, ...] = ()
    """bootstrap-extra-files: the same as paths, used when that is empty"""
    files: tuple[str, ...] = ()
    """bootstrap-extra-files: the same, used when both are empty"""
    config: Mapping[str, Any] = field(default_factory=dict)
    """values the hook itself defines; its handler gets them"""


class HookLoadSettings(Settings, frozen=True):
    """`hooks.internal.load`: where hooks are looked for, beside the usual places."""

    extra_dirs: tuple[str, ...] = ()
    """more directories with hooks; ~ stands for the home directory"""


class InternalHooksSettings(Settings, frozen=True):
    """`hooks.internal`: handlers for what happens inside."""

    enabled: bool | None = None
    """false: none runs; true: all that can, or those named in entries; absent: those named"""
    load: HookLoadSettings = HookLoadSettings()
    """where hooks are looked for"""
    entries: Mapping[str, HookEntrySettings] = field(default_factory=dict)
    """single hooks by key"""
    timeout_ms: Count = 15_000
    """longest run of a handler that names no limit of its own"""


MEMORY_CORE = "memory-core"


class PluginEntry(Settings, frozen=True):
    """`plugins.entries.<id>`: one plugin."""

    enabled: bool | None = None
    """run it, or not; each source has its own default"""
    isolation: Literal["process", "inprocess"] = "process"
    """a process of its own, or inside the gateway with everything the gateway has: only for what you trust"""
    config: Mapping[str, Any] = field(default_factory=dict)
    """its own settings; its manifest says which there are"""
    env: Mapping[str, Secret] = field(default_factory=dict)
    """variables it gets, out of those its manifest asks for"""
    hooks: HookSettings = HookSettings()
    """how far its hooks may go"""
    memory_mb: Count | None = None
    """most memory in MiB; plugins.limits.memoryMb when absent"""


class PluginLoadSettings(Settings, frozen=True):
    """`plugins.load`: where plugins are looked for."""

    paths: tuple[str, ...] = ()
    """directories with a plugin each, or with plugins in them"""


class PluginSlots(Settings, frozen=True):
    """`plugins.slots`: places that only one plugin can take."""

    memory: str = MEMORY_CORE
    """the memory: memory-core is the built-in one, none is none, any other name a plugin of kind memory"""
    context_engine: Literal["legacy"] = "legacy"
    """the context engine; there is only the built-in one, legacy"""


class PluginLimits(Settings, frozen=True):
    """`plugins.limits`: what a plugin's process may use before it is put away."""

    memory_mb: Count = 512
    """most memory in MiB"""
    start_seconds: Count = 30
    """longest time to start and register"""
    silent_seconds: Count = 30
    """longest time without a sign of life"""
    call_seconds: Count = 600
    """longest time for a tool, a command, a method or a request"""
    failures: Count = 5
    """failures in a row after which it is put away"""
    output_mb: Count = 8
    """most it may print within ten seconds, in MiB"""


class PluginsSettings(Settings, frozen=True):
    """`plugins`: extensions that others wrote."""

    enabled: bool = True
    """use plugins at all"""
    allow: tuple[str, ...] = ()
    """the only plugins that may run; any when empty"""
    deny: tuple[str, ...] = ()
    """plugins that never run, whatever else is set"""
    load: PluginLoadSettings = PluginLoadSettings()
    """where plugins are looked for"""
    slots: PluginSlots = PluginSlots()
    """places that only one plugin can take"""
    entries: Mapping[str, PluginEntry] = field(default_factory=dict)
    """plugins by id"""
    limits: PluginLimits = PluginLimits()
    """what a plugin's process may use"""
