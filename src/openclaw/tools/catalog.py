"""The tools of this wing, built from plain settings."""

from collections.abc import Mapping, Sequence

from openclaw.core.tool import Tool
from openclaw.tools.apply_patch import ApplyPatch
from openclaw.tools.edit import EditFile
from openclaw.tools.environment import safe_env
from openclaw.tools.exec import Exec
from openclaw.tools.ls import Ls
from openclaw.tools.read import Read
from openclaw.tools.search import Find, Grep
from openclaw.tools.write import Write


def build(
    *,
    shell: str,
    env: Mapping[str, str],
    workspace_only: bool = False,
    patch_workspace_only: bool = True,
    exec_timeout: float = 1800.0,
    path_prepend: Sequence[str] = (),
) -> list[Tool]:
    """All tools, in the order a prompt lists them. What commands inherit of `env` has no credentials in it."""
    env = safe_env(env)
    return [
        Read(workspace_only=workspace_only),
        Write(workspace_only=workspace_only),
        EditFile(workspace_only=workspace_only),
        ApplyPatch(workspace_only=workspace_only or patch_workspace_only),
        Grep(env=env, workspace_only=workspace_only),
        Find(env=env, workspace_only=workspace_only),
        Ls(workspace_only=workspace_only),
        Exec(shell=shell, env=env, timeout=exec_timeout, path_prepend=path_prepend),
    ]
