"""`openclaw cost` and `openclaw runs` as a person types them, after one message without a model."""

import json
from pathlib import Path

from openclaw.testing import RecordedRun, TemporaryHome
from tests import commandline


def openclaw(home: TemporaryHome, *words: str, code: int = 0) -> str:
    done = commandline.openclaw(*words, env=home.environ, cwd=home.workspace)
    assert done.returncode == code, done.stderr
    return done.stdout or done.stderr


def test_a_run_is_counted_shown_replayed_and_exported(openclaw_home: TemporaryHome, tmp_path: Path) -> None:
    openclaw(openclaw_home, "agent", "--local", "-m", "List the files here")
    cost = json.loads(openclaw(openclaw_home, "cost", "--by", "agent", "--json"))
    assert cost["rows"][0]["agent"] == "main" and cost["totals"]["calls"] == 2
    (run,) = json.loads(openclaw(openclaw_home, "runs", "list", "--json"))["runs"]
    assert run["status"] == "done" and run["calls"] == 2
    short = run["runId"][:8]
    assert "offline/offline" in openclaw(openclaw_home, "cost", "explain", short)
    assert openclaw(openclaw_home, "runs", "replay", short).startswith("identical: 2 call(s)")
    openclaw(openclaw_home, "runs", "export", short, "-o", str(tmp_path / "run.json"))
    assert RecordedRun.load(tmp_path / "run.json").question == "List the files here"
    assert "`openclaw runs list`" in openclaw(openclaw_home, "runs", "show", "nobody", code=1)
