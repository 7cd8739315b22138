"""`openclaw skills`: list, inspect and verify skills."""

from pathlib import Path
from typing import Any

import click

from openclaw.cli.extensions import skills_install
from openclaw.cli.extensions.skills_install import (
    SkillView,
    agent_option,
    as_option,
    describe_permissions,
    global_option,
    skill_option,
    skill_to_json,
)
from openclaw.cli.extensions.verbs import add_verbs, bullets, finding_to_json, print_findings
from openclaw.cli.render import JSON, facts, note, print_json, say, shorten, show, table
from openclaw.skills.install import origin_of


@click.group("skills")
def skills_command() -> None:
    """What the assistant can do beyond its tools: abilities kept as files."""


@skills_command.command("list")
@click.option("--eligible", is_flag=True, help="Only those that can be used now.")
@agent_option
@skill_option
@JSON
def list_skills(eligible: bool, agent_id: str | None, given: tuple[str, ...], as_json: bool) -> None:
    """Every skill: usable, or what is missing."""
    here = SkillView(agent_id, given)
    listed = here.list()
    items = [item for item in listed.items if item.verdict.eligible or not eligible]
    document = {
        "workspaceDir": str(here.workspace),
        "managedSkillsDir": str(here.managed),
        "skills": [skill_to_json(item) for item in items],
    }
    rows = []
    for item in items:
        about = shorten("; ".join(item.verdict.reasons) or item.skill.manifest.description, 80)
        source, usable = item.skill.source.removeprefix("openclaw-"), "yes" if item.verdict.eligible else "no"
        rows.append((item.skill.name, usable, item.trust.state, source, about))
    show(document, table(rows, ("skill", "usable", "trust", "from", ""), empty="No skills."), as_json)
    more = len(listed.diagnostics) + len(listed.collisions)
    if more and not as_json:
        note(f"{more} more to know: openclaw skills check")


@skills_command.command("info")
@click.argument("name")
@agent_option
@skill_option
@JSON
def info(name: str, agent_id: str | None, given: tuple[str, ...], as_json: bool) -> None:
    """All about one skill: what it says, needs, may do, and what a look through its files found."""
    here = SkillView(agent_id, given)
    item = here.list().get(name)
    document = skill_to_json(item, full=True)
    findings = here.skills.library.findings(item.skill)
    if as_json:
        print_json({**document, "findings": [finding_to_json(finding) for finding in findings]})
        return
    manifest, verdict = item.skill.manifest, item.verdict
    say(f"{manifest.emoji} {item.skill.name}".strip())
    say(f"{manifest.description}\n")
    pairs = [
        ("usable", "yes" if verdict.eligible else "no: " + "; ".join(verdict.reasons)),
        ("trust", f"{item.trust.state}{f' ({item.trust.why})' if item.trust.why else ''}"),
        ("file", here.short(item.skill.file_path)),
        ("from", item.skill.source),
        ("digest", item.skill.tree.sha256 if item.skill.tree else item.skill.problem),
        ("may", describe_permissions(item.skill.manifest.permissions)),
        ("homepage", manifest.homepage),
        ("license", manifest.license),
        ("compatibility", manifest.compatibility),
        ("called", "" if item.user_invocable else "not by people"),
    ]
    for line in facts(pairs, 14):
        say(line)
    bullets("To get what is missing:", verdict.remedies)
    bullets("It leads outside its directory:", [str(reference) for reference in item.skill.outside])
    bullets("Notes:", manifest.notes)
    print_findings(findings)


@skills_command.command("check")
@agent_option
@skill_option
@JSON
def check(agent_id: str | None, given: tuple[str, ...], as_json: bool) -> None:
    """Everything that keeps a skill from being used, and everything odd about those that are."""
    here = SkillView(agent_id, given)
    listed = here.list()
    prompt = listed.prompt.text if listed.prompt else ""
    problems = [{"kind": note.kind, "path": note.path, "message": note.message} for note in listed.diagnostics] + [
        {"kind": "collision", "path": clash.loser.file_path, "message": str(clash)} for clash in listed.collisions
    ]
    for item in listed.items:
        where = item.skill.file_path
        problems += [{"kind": "reference", "path": where, "message": str(ref)} for ref in item.skill.outside]
        problems += [{"kind": "manifest", "path": where, "message": note} for note in item.skill.manifest.notes]
    unusable = [item for item in listed.items if not item.verdict.eligible]
    about = prompt.partition("<available_skills>")[0].strip()
    if as_json:
        counts = {"total": len(listed.items), "eligible": len(listed.usable), "promptChars": len(prompt)}
        missing = [skill_to_json(item) | {"remedies": item.verdict.remedies} for item in unusable]
        print_json({**counts, "promptNote": about, "missing": missing, "problems": problems})
        return
    click.echo(f"{len(listed.usable)} of {len(listed.items)} skills can be used")
    click.echo(f"the list in the prompt has {len(prompt):,} characters")
    bullets("", [about] if about else [])
    for item in unusable:
        bullets(f"{item.skill.name}: {'; '.join(item.verdict.reasons)}", item.verdict.remedies)
    bullets("Also:", [f"{here.short(problem['path'])}: {problem['message']}" for problem in problems])


@skills_command.command("verify")
@click.argument("name", required=False)
@JSON
def verify(name: str | None, as_json: bool) -> int:
    """Whether skills are still the ones that were accepted (all of them, or NAME). Exit code 1 when one is not."""
    listed = SkillView().list()
    rows: list[dict[str, Any]] = []
    for item in [listed.get(name)] if name else listed.items:
        origin = origin_of(Path(item.skill.base_dir))
        tree = item.skill.tree.sha256 if item.skill.tree else ""
        spec, same = (origin.spec, origin.tree_sha256 == tree) if origin else (None, None)
        about = {"name": item.skill.name, "trust": item.trust.state, "why": item.trust.why, "treeSha256": tree}
        rows.append({**about, "origin": spec, "asInstalled": same})
    bad = [row for row in rows if row["trust"] in ("changed", "blocked")]
    cells = [(row["name"], row["trust"], row["treeSha256"][:19], row["why"]) for row in rows]
    shown = table(cells, ("skill", "trust", "digest", ""), empty="No skills.")
    show({"ok": not bad, "skills": rows}, shown, as_json)
    return 1 if bad else 0


for _changing in skills_install.COMMANDS:
    skills_command.add_command(_changing)
add_verbs(skills_command, SkillView, global_option, as_option, agent_option)
