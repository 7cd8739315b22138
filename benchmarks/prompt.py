"""Building a full prompt with 8 files of 20,000 characters and 150 skills, against reading the same files.

Then what a first request costs, in tokens (characters / 4), by section, file and tool.

Run: python benchmarks/prompt.py
"""

import json
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import structs

from openclaw.core.text import PromptText
from openclaw.prompt.build import build, render_stable
from openclaw.prompt.facts import PromptFacts, ToolLine
from openclaw.workspace import budget, files
from openclaw.workspace.budget import FileBudget
from openclaw.workspace.files import BOOTSTRAP_FILES, FileCache

GOLDEN = Path(__file__).parents[1] / "tests" / "golden" / "prompts"
NAMES = BOOTSTRAP_FILES[:8]
LINE = "Keep it short, keep it kind, and say plainly what was done and what was not.\n"
SKILL = (
    "  <skill>\n    <name>{n}</name>\n    <description>{text}</description>\n    <location>~/{n}</location>\n  </skill>"
)


def best(work: Callable[[], object], times: int = 30) -> float:
    """The least CPU milliseconds of several runs."""
    least = float("inf")
    for _ in range(times):
        began = time.process_time()
        work()
        least = min(least, time.process_time() - began)
    return least * 1000


def facts(root: Path, cache: FileCache | None, skills: PromptText, turn: int) -> PromptFacts:
    cut = budget.fit(files.load(root, cache=cache, names=NAMES), FileBudget(per_file=20_000, total=200_000))
    return PromptFacts(
        workspace_dir=str(root),
        tools=(*(ToolLine(f"tool_{n}", "does something useful") for n in range(30)), ToolLine("read", "")),
        context_files=cut.files,
        skills=skills,
        fence_id="0123456789abcdef",
        thinking=str(turn),
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name in NAMES:
            (root / name).write_text((LINE * 300)[:20_000])
        listed = "\n".join(SKILL.format(n=n, text=LINE.strip()) for n in range(150))
        skills = PromptText(f"<available_skills>\n{listed}\n</available_skills>", "skills", "skill")
        cache = FileCache()
        turn = 0

        def warm() -> None:
            nonlocal turn
            turn += 1
            build(facts(root, cache, skills, turn))

        def cold() -> None:
            render_stable.cache_clear()
            build(facts(root, None, skills, 0))

        reading = best(lambda: [(root / name).read_text() for name in NAMES])
        warm()
        rows = (("read the same files", reading), ("warm build", best(warm)), ("cold build", best(cold)))
        print(f"{'what':<22} {'CPU ms':>8} {'x reading':>10}")
        for name, took in rows:
            print(f"{name:<22} {took:>8.2f} {took / reading:>10.1f}")
        whole = build(facts(root, cache, skills, 0))
        all_files = facts(root, cache, skills, 0)
        half = structs.replace(all_files, context_files=all_files.context_files[:4])

        def half_cold() -> None:
            render_stable.cache_clear()
            build(half)

        small = best(half_cold)
        print(f"{len(whole.text):,} characters; half the files cost x{small / rows[2][1]:.2f} of the cold build")
    first_request()


def first_request() -> None:
    """What a first message on Telegram costs, by section, file and tool; from the golden files of a real run."""
    prompt = (GOLDEN / "telegram-direct.md").read_text(encoding="utf-8")
    tools = json.loads((GOLDEN / "tools.json").read_text(encoding="utf-8"))
    # Headings inside a workspace file belong to the file.
    fenced = re.compile(
        r"^## \S+/([^/\n]+)\n<<<WORKSPACE_FILE .*?^<<<END_WORKSPACE_FILE[^\n]*\n", re.DOTALL | re.MULTILINE
    )
    rows = [(f"file {found[1]}", len(found[0])) for found in fenced.finditer(prompt)]
    parts = re.split(r"^(?=#{1,3} )", fenced.sub("", prompt), flags=re.MULTILINE)
    rows = [(part.partition("\n")[0][:40], len(part)) for part in parts] + rows
    for name, tool in tools.items():
        schema = json.dumps(tool["parameters"], separators=(",", ":"), ensure_ascii=False)
        rows.append((f"tool {name}", len(name) + len(tool["description"]) + len(schema)))
    print(f"\n{'a first request':<42} {'tokens':>7}")
    for name, chars in (*rows, ("all", sum(chars for _, chars in rows))):
        print(f"{name:<42} {chars / 4:>7.0f}")


if __name__ == "__main__":
    main()
