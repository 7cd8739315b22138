"""The part of `openclaw skills` that changes something: accepting, installing, removing, making."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from openclaw.cli.skills_show import (
    SkillView,
    agent_option,
    as_json_option,
    bullets,
    declared,
    finding_document,
    skill_option,
    told,
)

if TYPE_CHECKING:
    from pathlib import Path

    from openclaw.skills.install import StagedSkill
    from openclaw.skills.record import Source
    from openclaw.skills.shelf import ListedSkill, SkillList


@click.command("trust")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@skill_option
def trust(name: str, yes: bool, given: tuple[str, ...]) -> None:
    """Accept NAME as it is now. Shows first what changed, or what is in it."""
    from openclaw.core.errors import InvalidRequest
    from openclaw.core.visible import printable
    from openclaw.skills.lock import accepted

    here = SkillView(given=given)
    item = _held_first(here.shelf(), name)
    if item.skill.bundled:
        raise InvalidRequest(f"{item.skill.name} comes with OpenClaw: there is nothing to accept")
    ledger = here.skills.library.ledger
    for line in ledger.diff(item.skill, ledger.read().get(item.skill.base_dir)):
        click.echo(printable(line))
    bullets(
        "A look through its files found:",
        [told(finding_document(it)) for it in here.skills.library.findings(item.skill)],
    )
    click.echo(f"{here.short(item.skill.base_dir)}\nmay: {declared(item.skill.manifest.permissions)}")
    if not yes and not _asked(f"Accept {item.skill.name}?"):
        raise InvalidRequest("not accepted: answer yes at a terminal, or give --yes")
    ledger.accept({item.skill.base_dir: accepted(item.skill, "owner", here.millis())})
    click.echo(f"{item.skill.name} is accepted as it is now.")


@click.command("untrust")
@click.argument("name")
@skill_option
def untrust(name: str, given: tuple[str, ...]) -> None:
    """Hold NAME back until it is accepted again."""
    from openclaw.core.errors import InvalidRequest
    from openclaw.skills.lock import accepted

    here = SkillView(given=given)
    item = here.shelf().get(name)
    if item.skill.bundled:
        raise InvalidRequest(
            f"switch it off instead: openclaw config set skills.entries.{item.skill.name}.enabled false"
        )
    here.skills.library.ledger.refuse(item.skill.base_dir, accepted(item.skill, "owner", here.millis()))
    click.echo(f"{item.skill.name} is held back. openclaw skills trust {item.skill.name} takes that back.")


@click.command("diff")
@click.argument("name")
@skill_option
def diff(name: str, given: tuple[str, ...]) -> None:
    """What changed in NAME since it was accepted."""
    from openclaw.cli.output import note
    from openclaw.core.visible import printable

    here = SkillView(given=given)
    item = _held_first(here.shelf(), name)
    ledger = here.skills.library.ledger
    known = ledger.read().get(item.skill.base_dir)
    lines = ledger.diff(item.skill, known)
    for line in lines:
        click.echo(printable(line))
    if known is None:
        note(f"{item.skill.name} was never accepted, so all of it is new.")
    elif not lines:
        note(f"{item.skill.name} is as it was accepted.")


@click.command("install")
@click.argument("source", type=click.Path(exists=True))
@click.option("--global", "everywhere", is_flag=True, help="For every agent, not only in this workspace.")
@click.option("--as", "slug", metavar="NAME", help="Its directory's name.")
@click.option("--force", is_flag=True, help="Replace what is there.")
@click.option("--yes", is_flag=True, help="Agree to warnings without being asked.")
@click.option("--accept-risk", is_flag=True, help="Install in spite of grave findings.")
@click.option("--dry-run", is_flag=True, help="Only show the report.")
@agent_option
@as_json_option
def install(
    source: str,
    everywhere: bool,
    slug: str | None,
    force: bool,
    yes: bool,
    accept_risk: bool,
    dry_run: bool,
    agent_id: str | None,
    as_json: bool,
) -> None:
    """Install a skill from a directory, a tarball or a zip file, after a look through it."""
    from pathlib import Path

    from openclaw.cli.output import print_json
    from openclaw.skills.install import staged
    from openclaw.trust.supply import inspect

    here = SkillView(agent_id)
    root, kind = here.root(everywhere)
    if dry_run:
        with staged(Path(source), root, inspect, slug, force=True) as ready:
            report = _report(ready, here)
        print_json(report) if as_json else _show_report(report)
        return
    report = _install(here, Path(source), root, kind, slug, force, yes, accept_risk, quiet=as_json)
    if as_json:
        print_json({"ok": True, **report})
    else:
        click.echo(f"installed {report['name']} in {here.short(report['target'])}")


@click.command("update")
@click.argument("name", required=False)
@click.option("--all", "everything", is_flag=True, help="Every skill that was installed from a file or directory.")
@click.option("--yes", is_flag=True, help="Agree to warnings without being asked.")
def update(name: str | None, everything: bool, yes: bool) -> None:
    """Install NAME again from where it came from."""
    from pathlib import Path

    from openclaw.core.errors import InvalidRequest
    from openclaw.skills.install import origin_of

    if (name is None) == (not everything):
        raise click.UsageError("name one skill, or say --all")
    here = SkillView()
    shelf = here.shelf()
    done = 0
    for item in [shelf.get(name)] if name else shelf.items:
        base = Path(item.skill.base_dir)
        origin = origin_of(base)
        if origin is None or item.skill.source not in ("openclaw-workspace", "openclaw-managed"):
            if name:
                raise InvalidRequest(f"{item.skill.name} was not installed by this program: update it where it is kept")
            continue
        if not Path(origin.spec).exists():
            raise InvalidRequest(f"{item.skill.name} came from {origin.spec}, which is not there any more")
        _install(here, Path(origin.spec), base.parent, item.skill.source, base.name, True, yes, False, mode="update")
        click.echo(f"updated {item.skill.name}")
        done += 1
    if not done:
        click.echo("Nothing to update.")


@click.command("remove")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
def remove(name: str, yes: bool) -> None:
    """Take an installed skill away."""
    from pathlib import Path

    from openclaw.core.errors import InvalidRequest
    from openclaw.skills import install as installing

    here = SkillView()
    item = here.shelf().get(name)
    if item.skill.source not in ("openclaw-workspace", "openclaw-managed"):
        raise InvalidRequest(
            f"{item.skill.name} is not kept by this program ({item.skill.source}): remove it where it is, "
            f"or switch it off with openclaw config set skills.entries.{item.skill.manifest.key}.enabled false"
        )
    target = Path(item.skill.file_path).parent
    if not yes and not _asked(f"Remove {target}?"):
        raise InvalidRequest("not removed: answer yes at a terminal, or give --yes")
    installing.remove(target, target.parent, here.skills.library.ledger)
    click.echo(f"removed {item.skill.name}")


@click.command("new")
@click.argument("name")
@click.option("--description", default="", help="What it does, and when to use it.")
@click.option("--global", "everywhere", is_flag=True, help="For every agent, not only in this workspace.")
def new(name: str, description: str, everywhere: bool) -> None:
    """A new skill to start from."""
    from openclaw.skills.make import new as make

    click.echo(str(make(SkillView().root(everywhere)[0], name, description)))


@click.command("pack")
@click.argument("directory", type=click.Path(exists=True, file_okay=False))
@click.option(
    "-o", "--output", type=click.Path(), metavar="FILE", help="A .tgz or .zip; named after the skill when absent."
)
def pack(directory: str, output: str | None) -> None:
    """A skill as one file, to hand on."""
    from pathlib import Path

    from openclaw.skills.make import pack as make

    click.echo(str(make(Path(directory), Path(output) if output else None, Path.cwd())))


@click.command("deps")
@click.argument("name")
@click.option("--run", "step_id", metavar="ID", help="Run this step.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def deps(name: str, step_id: str | None, yes: bool) -> None:
    """Ways to get the programs NAME needs; one is run only when you name it."""
    from openclaw.core.errors import InvalidRequest, NotFound
    from openclaw.skills.gate import shown, steps_for
    from openclaw.skills.install import slug_of
    from openclaw.skills.supplies import run

    here = SkillView()
    item = here.shelf().get(name)
    how = here.skills.settings.install
    steps = steps_for(item.skill.manifest, _platform(), how)
    if step_id is None:
        bullets(f"Ways to get what {item.skill.name} needs:", [f"{step.id}: {shown(step, how)}" for step in steps])
        click.echo(f"Run one: openclaw skills deps {item.skill.name} --run ID" if steps else "It names no way.")
        return
    step = next((step for step in steps if step.id == step_id), None)
    if step is None:
        raise NotFound(f"{item.skill.name} has no step {step_id!r}: openclaw skills deps {item.skill.name} lists them")
    if item.trust.held or item.trust.state == "new":
        raise InvalidRequest(f"{item.skill.name} is not accepted yet: openclaw skills trust {item.skill.name}")
    if not yes and not _asked(f"Run: {shown(step, how)}?"):
        raise InvalidRequest("not run: answer yes at a terminal, or give --yes")
    tools = here.surroundings.home.state / "tools" / slug_of(item.skill.manifest.key)
    click.echo(run(step, how, tools, here.loaded.variables))


def _install(
    here: SkillView,
    source: Path,
    root: Path,
    kind: Source,
    slug: str | None,
    force: bool,
    yes: bool,
    accept_risk: bool,
    *,
    mode: Literal["install", "update"] = "install",
    quiet: bool = False,
) -> dict[str, Any]:
    """Stages, asks everyone who has a say, installs; gives the report."""
    from datetime import UTC, datetime

    from openclaw.skills.install import SkillReview
    from openclaw.skills.install import install as put
    from openclaw.trust import installpolicy
    from openclaw.trust.supply import inspect

    def policy(ready: StagedSkill) -> str:
        question = installpolicy.PolicyQuestion(
            target="skill",
            name=ready.slug,
            staged=ready.directory,
            kind=ready.kind,
            spec=ready.spec,
            tree_sha256=ready.tree_sha256,
            mode=mode,
        )
        settings = here.loaded.config.security.install_policy
        return installpolicy.ask(question, settings, here.loaded.variables, _asked)

    def plugins(ready: StagedSkill) -> str:
        from openclaw.cli.objections import objection

        return objection(
            here.surroundings,
            target="skill",
            name=ready.slug,
            staged=ready.directory,
            spec=ready.spec,
            tree_sha256=ready.tree_sha256,
            mode=mode,
            findings=[finding_document(each) for each in ready.findings],
        )

    def person(ready: StagedSkill) -> str:
        report = _report(ready, here)
        if not quiet:
            _show_report(report)
        if ready.critical and not accept_risk:
            return "a look through it found something grave. If you have read it and still want it: --accept-risk"
        worth_asking = bool(ready.findings or ready.outside or report["lookalikes"])
        if worth_asking and not (yes or accept_risk) and not _asked(f"Install {ready.slug} all the same?"):
            return "nobody agreed to the findings: answer yes at a terminal, or give --yes"
        return ""

    now = here.now()
    ready = put(
        source,
        root,
        kind,
        ledger=here.skills.library.ledger,
        inspect=inspect,
        gatekeeper=SkillReview(policy=policy, hooks=(plugins,), person=person),
        now=now,
        stamp=datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        slug=slug,
        force=force,
    )
    return _report(ready, here)


def _report(ready: StagedSkill, here: SkillView) -> dict[str, Any]:
    from openclaw.skills.gate import shown
    from openclaw.skills.install import lookalikes

    known = [item.skill.name for item in here.shelf().items]
    manifest = ready.manifest
    return {
        "name": manifest.name,
        "description": manifest.description,
        "target": str(ready.target),
        "files": ready.files,
        "treeSha256": ready.tree_sha256,
        "permissions": declared(manifest.permissions),
        "requires": {
            "bins": manifest.requires.bins,
            "anyBins": manifest.requires.any_bins,
            "env": manifest.requires.env,
        },
        "install": [shown(step, here.skills.settings.install) for step in manifest.install],
        "lookalikes": lookalikes(manifest.name, known),
        "references": [str(reference) for reference in ready.outside],
        "findings": [finding_document(finding) for finding in ready.findings],
        "blocked": ready.critical,
    }


def _show_report(report: dict[str, Any]) -> None:
    from openclaw.core.visible import printable

    click.echo(printable(f"{report['name']}: {report['description']}"), err=True)
    click.echo(f"{report['files']} files, {report['treeSha256']}, to {report['target']}", err=True)
    click.echo(f"it says it may: {report['permissions']}", err=True)
    bullets("It can be mistaken for:", list(report["lookalikes"]), err=True)
    bullets("It would like these programs (never installed unasked):", report["install"], err=True)
    bullets("It leads outside its directory:", report["references"], err=True)
    bullets("A look through its files found:", [told(finding) for finding in report["findings"]], err=True)


def _held_first(shelf: SkillList, name: str) -> ListedSkill:
    """The skill called `name`; when one of that name is held back behind another, that one is meant."""
    from openclaw.skills.gate import SkillVerdict
    from openclaw.skills.shelf import ListedSkill

    found = shelf.get(name)
    for hidden in shelf.shadowed:
        if hidden.trust.held and hidden.skill.name == found.skill.name and not found.trust.held:
            return ListedSkill(skill=hidden.skill, trust=hidden.trust, verdict=SkillVerdict(eligible=False))
    return found


def _asked(question: str) -> bool:
    """A person's yes; without a person the answer is no."""
    import sys

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    return click.confirm(question, default=False, err=True)


def _platform() -> str:
    import sys

    return "linux" if sys.platform.startswith("linux") else sys.platform


COMMANDS = (trust, untrust, diff, install, update, remove, new, pack, deps)
