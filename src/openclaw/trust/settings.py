"""Settings of `security`."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import field

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
            "once untrusted text was read, calls that run code, send out, spend or change settings: go on, need"
            " your approval, or are refused"
        ),
    ] = "approve"


class SecuritySettings(Settings, frozen=True):
    """`security`: protections that work whatever the model does."""

    prompt_boundaries: Annotated[bool, doc("enclose workspace files in the prompt in markers nobody can forge")] = True
    install_policy: Annotated[InstallPolicySettings, doc("an operator's say over what may be installed")] = (
        InstallPolicySettings()
    )
    external_content: Annotated[ExternalContentSettings, doc("what text from elsewhere may bring about")] = (
        ExternalContentSettings()
    )
