"""Settings of `security`."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import field

from openclaw.core.deed import ActionKind, LabelColumn, LabelDecision
from openclaw.core.secret import Secret
from openclaw.core.settings import Count, Settings, doc


class PolicyCommand(Settings, frozen=True):
    """`security.installPolicy.exec`: the program that decides about installs."""

    command: Annotated[str, doc("the program: an absolute path", min_length=1)]
    args: Annotated[tuple[str, ...], doc("its arguments")] = ()
    timeout_ms: Annotated[Count, doc("longest wait for its answer")] = 10_000
    max_output_bytes: Annotated[Count, doc("longest answer")] = 1 << 20
    env: Annotated[Mapping[str, Secret], doc("variables it gets")] = field(default_factory=dict)
    pass_env: Annotated[tuple[str, ...], doc("variables of ours that it gets as well")] = ()


class InstallPolicySettings(Settings, frozen=True):
    """`security.installPolicy`: an operator's say over what may be installed."""

    enabled: Annotated[bool, doc("ask the program before anything is installed")] = False
    targets: Annotated[tuple[Literal["skill", "plugin"], ...], doc("what it is asked about")] = ("skill", "plugin")
    exec: Annotated[PolicyCommand | None, doc("the program")] = None


class ExternalContentSettings(Settings, frozen=True):
    """`security.externalContent`: what text from elsewhere may bring about."""

    taint_tools: Annotated[
        Literal["off", "approve", "deny"],
        doc(
            "once untrusted text was read, calls that run code, send out, schedule, spend or change settings: go on,"
            " need your approval, or are refused"
        ),
    ] = "approve"
    table: Annotated[
        Mapping[LabelColumn, Mapping[ActionKind, LabelDecision]],
        doc("changes to the table of labels: label, then what a call does, then allow, ask or deny"),
    ] = field(default_factory=dict)
    trusted_paths: Annotated[
        tuple[str, ...], doc("directories outside the workspace whose files are your own words")
    ] = ()
    untrusted_paths: Annotated[
        tuple[str, ...], doc("patterns of paths inside the workspace that hold what others wrote")
    ] = ()


class BreakerSettings(Settings, frozen=True):
    """`security.breaker`: pausing a run that does too much of what cannot be taken back."""

    deletes_per_minute: Annotated[
        int, doc("deletions an agent makes in a minute before you are asked; 0 = no limit", ge=0)
    ] = 10
    sends_per_minute: Annotated[
        int, doc("messages and requests of its own wording in a minute before you are asked; 0 = no limit", ge=0)
    ] = 10


class UndoSettings(Settings, frozen=True):
    """`security.undo`: what is kept so that changes of files can be undone."""

    enabled: Annotated[bool, doc("keep files as they were before tools changed them")] = True
    max_mb: Annotated[Count, doc("most megabytes kept; the oldest runs go first")] = 256
    max_file_mb: Annotated[Count, doc("larger files are not kept, and cannot be undone")] = 32
    days: Annotated[Count, doc("how long a run can be undone")] = 14


class SecuritySettings(Settings, frozen=True):
    """`security`: protections that work whatever the model does."""

    prompt_boundaries: Annotated[bool, doc("enclose workspace files in the prompt in markers nobody can forge")] = True
    install_policy: Annotated[InstallPolicySettings, doc("an operator's say over what may be installed")] = (
        InstallPolicySettings()
    )
    external_content: Annotated[ExternalContentSettings, doc("what text from elsewhere may bring about")] = (
        ExternalContentSettings()
    )
    breaker: Annotated[BreakerSettings, doc("pausing a run that deletes or sends in bulk")] = BreakerSettings()
    undo: Annotated[UndoSettings, doc("undoing what tools did to files")] = UndoSettings()
