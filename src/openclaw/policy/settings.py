"""Settings of `tools`: which tools an agent has and how far they may go."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import field

from openclaw.core.settings import Count, Millis, Seconds, Settings, doc
from openclaw.policy.narrowing import (
    Ask,
    ElevatedSettings,
    NarrowSettings,
    Profile,
    ProviderRules,
    SandboxToolSettings,
    Security,
)
from openclaw.policy.reach import (
    AgentToAgentSettings,
    SessionToolSettings,
    SpawnSettings,
    SubagentToolSettings,
    ToolExperimentalSettings,
    WebSettings,
)


class ApplyPatchSettings(Settings, frozen=True):
    """`tools.exec.applyPatch`: editing several files with one patch."""

    enabled: Annotated[bool, doc("offer the apply_patch tool")] = True
    workspace_only: Annotated[bool, doc("patch files inside the workspace only")] = True


class ExecSettings(Settings, frozen=True):
    """`tools.exec`: running commands."""

    security: Annotated[
        Security,
        doc(
            "deny runs nothing, allowlist runs what is on the list, full runs everything;"
            " allowlist unless set, which is stricter than OpenClaw's full"
        ),
    ] = "allowlist"
    ask: Annotated[
        Ask,
        doc(
            "when to ask a person: never, when a command is not on the list, always;"
            " on-miss unless set, which is stricter than OpenClaw's off"
        ),
    ] = "on-miss"
    strict_inline_eval: Annotated[
        bool,
        doc(
            "code in an argument (python -c, find -exec, make) is always asked about and never allowed for good;"
            " on unless set, which is stricter than OpenClaw's off"
        ),
    ] = True
    timeout_seconds: Annotated[Seconds, doc("longest run of a command; 0 means no limit")] = 1_800
    max_processes: Annotated[int, doc("most processes of one command at once; 0 means no limit", ge=0)] = 1_000
    background_ms: Annotated[Millis, doc("wait this long before a command goes on in the background")] = 10_000
    cleanup_ms: Annotated[int, doc("how long the output of an ended command is kept", ge=60_000, le=10_800_000)] = (
        1_800_000
    )
    notify_on_exit: Annotated[bool, doc("tell the session when a background command ends")] = True
    notify_on_exit_empty_success: Annotated[bool, doc("also when it succeeded without a word")] = False
    path_prepend: Annotated[tuple[str, ...], doc("directories put in front of PATH")] = ()
    safe_bins: Annotated[tuple[str, ...], doc("filters that may run on standard input without being listed")] = (
        "cut",
        "uniq",
        "head",
        "tail",
        "tr",
        "wc",
    )
    apply_patch: Annotated[ApplyPatchSettings, doc("the apply_patch tool")] = ApplyPatchSettings()


class FsSettings(Settings, frozen=True):
    """`tools.fs`: the file tools."""

    workspace_only: Annotated[bool, doc("read and write inside the workspace only")] = False


class LoopDetectionSettings(Settings, frozen=True):
    """`tools.loopDetection`: stopping a run that goes round in circles."""

    enabled: Annotated[bool, doc("watch for repeated calls; on unless set, unlike OpenClaw")] = True
    history_size: Annotated[Count, doc("calls of a session that are remembered")] = 30
    warning_threshold: Annotated[Count, doc("repeats before the model is told")] = 10
    critical_threshold: Annotated[Count, doc("repeats without progress before calls are blocked")] = 20
    global_circuit_breaker_threshold: Annotated[Count, doc("calls without any progress before the run ends")] = 30


class ToolsSettings(Settings, frozen=True):
    """`tools`: which tools an agent has and how far they may go."""

    profile: Annotated[Profile | None, doc("the set of tools to start from; all when absent")] = None
    allow: Annotated[tuple[str, ...], doc("only these tools: names, globs or group:<name>; all when empty")] = ()
    also_allow: Annotated[tuple[str, ...], doc("tools added to the profile; not together with allow")] = ()
    deny: Annotated[tuple[str, ...], doc("never these tools; wins over everything else")] = ()
    by_provider: Annotated[
        Mapping[str, ProviderRules], doc("tools by provider or provider/model, out of those that remain")
    ] = field(default_factory=dict)
    tools_by_sender: Annotated[
        Mapping[str, NarrowSettings], doc("tools by who speaks: channel:CHANNEL:ID, id:, e164:, username:, name: or *")
    ] = field(default_factory=dict)
    exec: Annotated[ExecSettings, doc("running commands")] = ExecSettings()
    fs: Annotated[FsSettings, doc("the file tools")] = FsSettings()
    loop_detection: Annotated[LoopDetectionSettings, doc("stopping a run that goes round in circles")] = (
        LoopDetectionSettings()
    )
    web: Annotated[WebSettings, doc("reading pages and searching")] = WebSettings()
    sessions: Annotated[SessionToolSettings, doc("what the session tools may see")] = SessionToolSettings()
    agent_to_agent: Annotated[AgentToAgentSettings, doc("agents that reach each other")] = AgentToAgentSettings()
    subagents: Annotated[SubagentToolSettings, doc("what sub-agents may do")] = SubagentToolSettings()
    sandbox: Annotated[SandboxToolSettings, doc("what runs in a sandbox may do")] = SandboxToolSettings()
    elevated: Annotated[ElevatedSettings, doc("leaving the sandbox")] = ElevatedSettings()
    sessions_spawn: Annotated[SpawnSettings, doc("starting sub-agents")] = field(
        name="sessions_spawn", default=SpawnSettings()
    )
    experimental: Annotated[ToolExperimentalSettings, doc("not settled yet")] = ToolExperimentalSettings()
