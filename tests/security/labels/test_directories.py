"""A directory in a command is not a program, and neither is a file that is only looked at."""

from pathlib import Path

from openclaw.core.settings import Fixed
from openclaw.core.tool import Effects, ToolContext, ToolSpec
from openclaw.security.label_service import LabelService
from openclaw.security.settings import SecuritySettings
from openclaw.testing import FakeClock


class Shell:
    spec = ToolSpec(name="exec", label="exec", description="", parameters={"properties": {"command": {}}})

    def effects(self, args: object) -> Effects:
        return Effects.RUNS_CODE


def test_listing_or_copying_a_directory_outside_the_workspace_brings_no_label(tmp_path: Path) -> None:
    workspace, outside = tmp_path / "workspace", tmp_path / "outside"
    workspace.mkdir()
    outside.mkdir()
    program = outside / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    service = LabelService(tmp_path / "state", tmp_path, Fixed(SecuritySettings()), FakeClock())
    labels, context = service.labels(workspace), ToolContext(call_id="1", workspace=workspace)

    def behind(command: str) -> object:
        return labels.behind(Shell(), {"command": command}, context)  # type: ignore[arg-type]

    assert behind(f"ls {outside}") == behind(f"cp -r {outside} copy") == behind(f"cd {outside} && git log") == ()
    assert behind(f"cat {program}") == behind(f"head -1 {program} | wc -l") == ()
    for command in (f"{program} now", f"cp {program} x && {program}", f"xargs {program}", f"cat `{program}`"):
        assert behind(command) != (), command
