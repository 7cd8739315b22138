"""`openclaw skills`: list, inspect and verify skills."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from openclaw.cli.extensions import skills_install
from openclaw.cli.extensions.skills_install import (
    SkillView,
    agent_option,
    as_json_option,
    bullets,
    describe_finding,
    describe_permissions,
    finding_document,
    item_document,
    shorten,
    skill_option,
)
from openclaw.cli.render import note, print_json, table
from openclaw.core.text import strip_unprintable
from openclaw.skills.install import origin_of


@click.group("skills")
def skills_command() -> None:
    """What the assistant can do beyond its tools: abilities kept as files."""


@skills_command.command("list")
@click.option("--eligible", is_flag=True, help="Only those that can be used now.")
@agent_option
@skill_option
@as_json_option
def list_skills(eligible: bool, agent_id: str | None, given: tuple[str, ...], as_json: bool) -> None:
    """Every skill: usable, or what is missing."""

    here = SkillView(agent_id, given)
    shelf = here.shelf()
    items = [item for item in shelf.items if item.verdict.eligible or not eligible]
    if as_json:
        print_json(
            {
                "workspaceDir": str(here.workspace),
                "managedSkillsDir": str(here.managed),
                "skills": [item_document(item) for item in items],
            }
        )
        return
    rows = [
        (
            item.skill.name,
            "yes" if item.verdict.eligible else "no",
            item.trust.state,
            item.skill.source.removeprefix("openclaw-"),
            strip_unprintable(shorten("; ".join(item.verdict.reasons) or item.skill.manifest.description, 80)),
        )
        for item in items
    ]
    click.echo(table(rows, ("skill", "usable", "trust", "from", "")) if rows else "No skills.")
    if shelf.diagnostics or shelf.collisions:
        count = len(shelf.diagnostics) + len(shelf.collisions)
        note(f"{count} more to know: openclaw skills check")


@skills_command.command("info")
@click.argument("name")
@agent_option
@skill_option
@as_json_option
def info(name: str, agent_id: str | None, given: tuple[str, ...], as_json: bool) -> None:
    """All about one skill: what it says, needs, may do, and what a look through its files found."""

    here = SkillView(agent_id, given)
    item = here.shelf().get(name)
    document = item_document(item, full=True)
    document["findings"] = [finding_document(finding) for finding in here.skills.library.findings(item.skill)]
    if as_json:
        print_json(document)
        return
    manifest, verdict = item.skill.manifest, item.verdict
    click.echo(strip_unprintable(f"{manifest.emoji} {item.skill.name}".strip()))
    click.echo(strip_unprintable(f"{manifest.description}\n"))
    lines = [
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
    for label, value in lines:
        if value:
            click.echo(strip_unprintable(f"{label:<14}{value}"))
    bullets("To get what is missing:", [*verdict.remedies])
    bullets("It leads outside its directory:", [str(reference) for reference in item.skill.outside])
    bullets("Notes:", list(manifest.notes))
    bullets("A look through its files found:", [describe_finding(finding) for finding in document["findings"]])


@skills_command.command("check")
@agent_option
@skill_option
@as_json_option
def check(agent_id: str | None, given: tuple[str, ...], as_json: bool) -> None:
    """Everything that keeps a skill from being used, and everything odd about those that are."""

    here = SkillView(agent_id, given)
    shelf = here.shelf()
    listed = shelf.prompt.text if shelf.prompt else ""
    problems = [{"kind": note.kind, "path": note.path, "message": note.message} for note in shelf.diagnostics] + [
        {"kind": "collision", "path": clash.loser.file_path, "message": str(clash)} for clash in shelf.collisions
    ]
    for item in shelf.items:
        where = item.skill.file_path
        problems += [{"kind": "reference", "path": where, "message": str(ref)} for ref in item.skill.outside]
        problems += [{"kind": "manifest", "path": where, "message": note} for note in item.skill.manifest.notes]
    document: dict[str, Any] = {
        "total": len(shelf.items),
        "eligible": len(shelf.usable),
        "promptChars": len(listed),
        "promptNote": listed.partition("<available_skills>")[0].strip(),
        "missing": [
            item_document(item) | {"remedies": item.verdict.remedies}
            for item in shelf.items
            if not item.verdict.eligible
        ],
        "problems": problems,
    }
    if as_json:
        print_json(document)
        return
    click.echo(f"{document['eligible']} of {document['total']} skills can be used")
    click.echo(f"the list in the prompt has {document['promptChars']:,} characters")
    bullets("", [document["promptNote"]] if document["promptNote"] else [])
    for item in shelf.items:
        if not item.verdict.eligible:
            bullets(f"{item.skill.name}: {'; '.join(item.verdict.reasons)}", list(item.verdict.remedies))
    bullets("Also:", [f"{here.short(problem['path'])}: {problem['message']}" for problem in problems])


@skills_command.command("verify")
@click.argument("name", required=False)
@as_json_option
def verify(name: str | None, as_json: bool) -> None:
    """Whether skills are still the ones that were accepted (all of them, or NAME). Exit code 1 when one is not."""

    shelf = SkillView().shelf()
    rows = []
    for item in [shelf.get(name)] if name else shelf.items:
        origin = origin_of(Path(item.skill.base_dir))
        tree = item.skill.tree.sha256 if item.skill.tree else ""
        rows.append(
            {
                "name": item.skill.name,
                "trust": item.trust.state,
                "why": item.trust.why,
                "treeSha256": tree,
                "origin": origin.spec if origin else None,
                "asInstalled": origin.tree_sha256 == tree if origin else None,
            }
        )
    bad = [row for row in rows if row["trust"] in ("changed", "blocked")]
    if as_json:
        print_json({"ok": not bad, "skills": rows})
    else:
        cells = [(str(row["name"]), str(row["trust"]), str(row["treeSha256"])[:19], str(row["why"])) for row in rows]
        click.echo(table(cells, ("skill", "trust", "digest", "")) if cells else "No skills.")
    if bad:
        raise click.exceptions.Exit(1)


for _changing in skills_install.COMMANDS:
    skills_command.add_command(_changing)
