"""Something is about to be installed by a command on this machine."""

from typing import Literal

from msgspec import Struct

from openclaw.wire.params.kinds import NonEmpty, Params


class FindingParam(Struct, frozen=True, kw_only=True, rename="camel"):
    rule_id: str
    severity: Literal["info", "warn", "critical"]
    message: str
    file: str = ""
    line: int = 0


class InstallCheckParams(Params, frozen=True, kw_only=True):
    """Params of `install.check`: what waits, unpacked, where the gateway can look at it too."""

    target_type: Literal["skill", "plugin"]
    target_name: NonEmpty
    source_path: NonEmpty
    spec: str
    tree_sha256: NonEmpty
    mode: Literal["install", "update"] = "install"
    findings: tuple[FindingParam, ...] = ()
