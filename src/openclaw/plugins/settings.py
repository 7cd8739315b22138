"""Settings of `plugins` and `hooks.internal`."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import field

from openclaw.core.secret import Secret
from openclaw.core.settings import Count, Settings, doc


class HookSettings(Settings, frozen=True):
    """`plugins.entries.<id>.hooks`: what an operator lets one plugin do, and for how long."""

    allow_prompt_injection: Annotated[bool, doc("it may add text to prompts")] = True
    allow_prompt_replace: Annotated[bool, doc("it may put a system prompt of its own in place of ours")] = False
    allow_model_override: Annotated[
        bool | None, doc("it may choose another configured model; if absent, only what comes with OpenClaw may")
    ] = None
    allow_conversation_access: Annotated[bool, doc("it may see what is said")] = False
    timeout_ms: Annotated[Annotated[int, doc("", ge=1, le=600_000)] | None, doc("longest time for each handler")] = None
    timeouts: Annotated[
        dict[str, Annotated[int, doc("", ge=1, le=600_000)]], doc("longest time at one point, by its name")
    ] = field(default_factory=dict)


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


MEMORY_CORE = "memory-core"


class PluginEntry(Settings, frozen=True):
    """`plugins.entries.<id>`: one plugin."""

    enabled: Annotated[bool | None, doc("run it, or not; each source has its own default")] = None
    isolation: Annotated[
        Literal["process", "inprocess"],
        doc("a process of its own, or inside the gateway with everything the gateway has: only for what you trust"),
    ] = "process"
    config: Annotated[Mapping[str, Any], doc("its own settings; its manifest says which there are")] = field(
        default_factory=dict
    )
    env: Annotated[Mapping[str, Secret], doc("variables it gets, out of those its manifest asks for")] = field(
        default_factory=dict
    )
    hooks: Annotated[HookSettings, doc("how far its hooks may go")] = HookSettings()
    memory_mb: Annotated[Count | None, doc("most memory in MiB; plugins.limits.memoryMb when absent")] = None


class PluginLoadSettings(Settings, frozen=True):
    """`plugins.load`: where plugins are looked for."""

    paths: Annotated[tuple[str, ...], doc("directories with a plugin each, or with plugins in them")] = ()


class PluginSlots(Settings, frozen=True):
    """`plugins.slots`: places that only one plugin can take."""

    memory: Annotated[
        str, doc("the memory: memory-core is the built-in one, none is none, any other name a plugin of kind memory")
    ] = MEMORY_CORE
    context_engine: Annotated[Literal["legacy"], doc("the context engine; there is only the built-in one, legacy")] = (
        "legacy"
    )


class PluginLimits(Settings, frozen=True):
    """`plugins.limits`: what a plugin's process may use before it is put away."""

    memory_mb: Annotated[Count, doc("most memory in MiB")] = 512
    start_seconds: Annotated[Count, doc("longest time to start and register")] = 30
    silent_seconds: Annotated[Count, doc("longest time without a sign of life")] = 30
    call_seconds: Annotated[Count, doc("longest time for a tool, a command, a method or a request")] = 600
    failures: Annotated[Count, doc("failures in a row after which it is put away")] = 5
    output_mb: Annotated[Count, doc("most it may print within ten seconds, in MiB")] = 8


class PluginsSettings(Settings, frozen=True):
    """`plugins`: extensions that others wrote."""

    enabled: Annotated[bool, doc("use plugins at all")] = True
    allow: Annotated[tuple[str, ...], doc("the only plugins that may run; any when empty")] = ()
    deny: Annotated[tuple[str, ...], doc("plugins that never run, whatever else is set")] = ()
    load: Annotated[PluginLoadSettings, doc("where plugins are looked for")] = PluginLoadSettings()
    slots: Annotated[PluginSlots, doc("places that only one plugin can take")] = PluginSlots()
    entries: Annotated[Mapping[str, PluginEntry], doc("plugins by id")] = field(default_factory=dict)
    limits: Annotated[PluginLimits, doc("what a plugin's process may use")] = PluginLimits()
