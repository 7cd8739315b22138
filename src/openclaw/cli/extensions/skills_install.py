"""The verbs of `openclaw skills` that change something: trust, install, update, remove, new, pack."""

import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from openclaw.agent.settings import default_agent, resolve_agent
from openclaw.cli.extensions.review import (
    GRAVE,
    InstallOptions,
    ask_plugins,
    ask_policy,
    bullets,
    finding_to_json,
    print_findings,
)
from openclaw.cli.home import read_home
from openclaw.cli.render import JSON, YES, ProgressLine, confirm, note, now_ms, print_json, require_yes, say, show
from openclaw.config.live import LiveConfig
from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.extensions.install import repair_interrupted
from openclaw.process.tasks import SystemClock
from openclaw.security.install_scan import scan_files
from openclaw.skills import install as installing
from openclaw.skills.accepted import make_entry
from openclaw.skills.catalog import shorten_path
from openclaw.skills.gate import ListedSkill, SkillVerdict, describe_step, steps_for
from openclaw.skills.install import SkillReview, StagedSkill, lookalikes, origin_of, stage_skill
from openclaw.skills.record import Source
from openclaw.skills.service import AgentSkills, SkillService
from openclaw.workspace.seed import workspace_of

agent_option = click.option(
    "--agent", "agent_id", metavar="ID", help="As this agent has it; the default agent when absent."
)
skill_option = click.option(
    "--skill", "given", multiple=True, metavar="PATH", help="Also look here: a skill, or skills."
)


class SkillView:
    """The skills of this home, as one command needs them."""

    def __init__(self, agent_id: str | None = None, given: tuple[str, ...] = ()) -> None:
        self.environment, self.loaded = read_home()
        home = self.environment.home
        agents = self.loaded.config.agents
        self.agent = resolve_agent(agents, agent_id or default_agent(agents)).id
        self.workspace = workspace_of(agents, self.agent, self.environment)
        live = LiveConfig(self.loaded)
        self.skills = SkillService(
            live.skills,
            live.agents,
            live.variables,
            live.is_set,
            home.state,
            self.environment.home_dir,
            SystemClock().now,
        )
        self._given = tuple(Path(path) for path in given)
        self.managed = home.state / "skills"
        for root in (self.managed, self.workspace / "skills"):
            repair_interrupted(root)

    def list(self) -> AgentSkills:
        cwd = self.environment.cwd
        return self.skills.look(self.agent, self.workspace, cwd, first_use=False, given=self._given)

    def root(self, everywhere: bool) -> tuple[Path, Source]:
        """Where a skill is installed: for every agent, or in this agent's workspace."""
        if everywhere:
            return self.managed, "openclaw-managed"
        return self.workspace / "skills", "openclaw-workspace"

    def short(self, path: str) -> str:
        return shorten_path(path, str(self.environment.home_dir))


def skill_to_json(item: ListedSkill, full: bool = False) -> dict[str, Any]:
    manifest, verdict = item.skill.manifest, item.verdict
    document: dict[str, Any] = {
        "name": item.skill.name,
        "description": manifest.description,
        "emoji": manifest.emoji or None,
        "eligible": verdict.eligible,
        "disabled": verdict.disabled,
        "blockedByAllowlist": verdict.blocked_by_allowlist,
        "blockedByAgentFilter": verdict.blocked_by_agent,
        "modelVisible": item.model_visible,
        "userInvocable": item.user_invocable,
        "source": item.skill.source,
        "bundled": item.skill.bundled,
        "homepage": manifest.homepage or None,
        "trust": item.trust.state,
        "reasons": verdict.reasons,
        "missing": msgspec.to_builtins(verdict.missing),
    }
    if full:
        document |= {
            "filePath": item.skill.file_path,
            "baseDir": item.skill.base_dir,
            "skillKey": manifest.key,
            "primaryEnv": manifest.primary_env or None,
            "contentHash": item.skill.content_hash,
            "treeSha256": item.skill.tree.sha256 if item.skill.tree else None,
            "license": manifest.license or None,
            "compatibility": manifest.compatibility or None,
            "allowRemote": manifest.allow_remote,
            "permissions": msgspec.to_builtins(manifest.permissions),
            "remedies": verdict.remedies,
            "references": [str(reference) for reference in item.skill.outside],
            "notes": manifest.notes,
            "trustWhy": item.trust.why,
        }
    return document


def describe_permissions(permissions: Any) -> str:
    """Declared permissions in words."""
    if not permissions.declared:
        return "anything the agent may (it declares nothing)"
    parts = []
    if permissions.tools is not None:
        parts.append(f"use {', '.join(permissions.tools) or 'no tools'}")
    if permissions.network is not None:
        parts.append("use the network" if permissions.network else "not use the network")
    if permissions.paths is not None:
        parts.append(f"touch {', '.join(permissions.paths) or 'no files'}")
    return "; ".join(parts)


@click.command("trust")
@click.argument("name")
@YES
@skill_option
def trust(name: str, yes: bool, given: tuple[str, ...]) -> None:
    """Accept NAME as it is now. Shows first what changed, or what is in it."""
    here = SkillView(given=given)
    item = _held_first(here.list(), name)
    if item.skill.bundled:
        raise InvalidRequest(f"{item.skill.name} comes with OpenClaw: there is nothing to accept")
    ledger = here.skills.library.ledger
    for line in ledger.diff(item.skill, ledger.read().get(item.skill.base_dir)):
        say(line)
    print_findings(here.skills.library.findings(item.skill))
    click.echo(f"{here.short(item.skill.base_dir)}\nmay: {describe_permissions(item.skill.manifest.permissions)}")
    require_yes(f"Accept {item.skill.name}?", yes, "not accepted")
    ledger.accept({item.skill.base_dir: make_entry(item.skill, "owner", now_ms())})
    click.echo(f"{item.skill.name} is accepted as it is now.")


@click.command("untrust")
@click.argument("name")
@skill_option
def untrust(name: str, given: tuple[str, ...]) -> None:
    """Hold NAME back until it is accepted again."""
    here = SkillView(given=given)
    item = here.list().get(name)
    if item.skill.bundled:
        name = item.skill.name
        raise InvalidRequest(f"switch it off instead: openclaw config set skills.entries.{name}.enabled false")
    here.skills.library.ledger.refuse(item.skill.base_dir, make_entry(item.skill, "owner", now_ms()))
    click.echo(f"{item.skill.name} is held back. openclaw skills trust {item.skill.name} takes that back.")


@click.command("diff")
@click.argument("name")
@skill_option
def diff(name: str, given: tuple[str, ...]) -> None:
    """What changed in NAME since it was accepted."""
    here = SkillView(given=given)
    item = _held_first(here.list(), name)
    ledger = here.skills.library.ledger
    known = ledger.read().get(item.skill.base_dir)
    lines = ledger.diff(item.skill, known)
    for line in lines:
        say(line)
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
@JSON
def install(
    source: str, everywhere: bool, slug: str | None, dry_run: bool, agent_id: str | None, as_json: bool, **agreed: Any
) -> None:
    """Install a skill from a directory, a tarball or a zip file, after a look through it."""
    here = SkillView(agent_id)
    root, kind = here.root(everywhere)
    if dry_run:
        with stage_skill(Path(source), root, scan_files, slug, True, ProgressLine(quiet=as_json)) as ready:
            report = _report(ready, here)
            print_json(report) if as_json else _show_report(ready, report)
        return
    report = _install(here, Path(source), root, kind, slug, InstallOptions(quiet=as_json, **agreed))
    show({"ok": True, **report}, f"installed {report['name']} in {here.short(report['target'])}", as_json)


@click.command("update")
@click.argument("name", required=False)
@click.option("--all", "everything", is_flag=True, help="Every skill that was installed from a file or directory.")
@click.option("--yes", is_flag=True, help="Agree to warnings without being asked.")
def update(name: str | None, everything: bool, yes: bool) -> None:
    """Install NAME again from where it came from."""
    if (name is None) == (not everything):
        raise click.UsageError("name one skill, or say --all")
    here = SkillView()
    listed = here.list()
    done = 0
    for item in [listed.get(name)] if name else listed.items:
        base = Path(item.skill.base_dir)
        origin = origin_of(base)
        if origin is None or item.skill.source not in ("openclaw-workspace", "openclaw-managed"):
            if name:
                raise InvalidRequest(f"{item.skill.name} was not installed by this program: update it where it is kept")
            continue
        if not Path(origin.spec).exists():
            raise InvalidRequest(f"{item.skill.name} came from {origin.spec}, which is not there any more")
        options = InstallOptions(force=True, yes=yes, mode="update")
        _install(here, Path(origin.spec), base.parent, item.skill.source, base.name, options)
        click.echo(f"updated {item.skill.name}")
        done += 1
    if not done:
        click.echo("Nothing to update.")


@click.command("remove")
@click.argument("name")
@YES
def remove(name: str, yes: bool) -> None:
    """Take an installed skill away."""
    here = SkillView()
    item = here.list().get(name)
    if item.skill.source not in ("openclaw-workspace", "openclaw-managed"):
        raise InvalidRequest(
            f"{item.skill.name} is not kept by this program ({item.skill.source}): remove it where it is, "
            f"or switch it off with openclaw config set skills.entries.{item.skill.manifest.key}.enabled false"
        )
    target = Path(item.skill.file_path).parent
    require_yes(f"Remove {target}?", yes, "not removed")
    installing.remove(target, target.parent, here.skills.library.ledger)
    click.echo(f"removed {item.skill.name}")


@click.command("new")
@click.argument("name")
@click.option("--description", default="", help="What it does, and when to use it.")
@click.option("--global", "everywhere", is_flag=True, help="For every agent, not only in this workspace.")
def new(name: str, description: str, everywhere: bool) -> None:
    """A new skill to start from."""
    click.echo(str(installing.new(SkillView().root(everywhere)[0], name, description)))


@click.command("pack")
@click.argument("directory", type=click.Path(exists=True, file_okay=False))
@click.option(
    "-o", "--output", type=click.Path(), metavar="FILE", help="A .tgz or .zip; named after the skill when absent."
)
def pack(directory: str, output: str | None) -> None:
    """A skill as one file, to hand on."""
    click.echo(str(installing.pack(Path(directory), Path(output) if output else None, Path.cwd())))


@click.command("deps")
@click.argument("name")
@click.option("--run", "step_id", metavar="ID", help="Run this step.")
@YES
def deps(name: str, step_id: str | None, yes: bool) -> None:
    """Ways to get the programs NAME needs; one is run only when you name it."""
    here = SkillView()
    item = here.list().get(name)
    how = here.skills.settings.install
    steps = steps_for(item.skill.manifest, "linux" if sys.platform.startswith("linux") else sys.platform, how)
    if step_id is None:
        ways = [f"{step.id}: {describe_step(step, how)}" for step in steps]
        bullets(f"Ways to get what {item.skill.name} needs:", ways)
        click.echo(f"Run one: openclaw skills deps {item.skill.name} --run ID" if steps else "It names no way.")
        return
    step = next((step for step in steps if step.id == step_id), None)
    if step is None:
        raise NotFound(f"{item.skill.name} has no step {step_id!r}: openclaw skills deps {item.skill.name} lists them")
    if item.trust.held or item.trust.state == "new":
        raise InvalidRequest(f"{item.skill.name} is not accepted yet: openclaw skills trust {item.skill.name}")
    require_yes(f"Run: {describe_step(step, how)}?", yes, "not run")
    tools = here.environment.home.state / "tools" / installing.slug_of(item.skill.manifest.key)
    click.echo(installing.run(step, how, tools, here.loaded.variables, ProgressLine()))


def _install(
    here: SkillView, source: Path, root: Path, kind: Source, slug: str | None, options: InstallOptions
) -> dict[str, Any]:
    """Stages the skill, asks policy, hooks and person, installs it; gives the report."""

    def person(ready: StagedSkill) -> str:
        report = _report(ready, here)
        if not options.quiet:
            _show_report(ready, report)
        if ready.critical and not options.accept_risk:
            return GRAVE
        worth_asking = ready.findings or ready.outside or report["lookalikes"]
        agreed = options.yes or options.accept_risk or not worth_asking
        agreed = agreed or confirm(f"Install {ready.slug} all the same?")
        return "" if agreed else "nobody agreed to the findings: answer yes at a terminal, or give --yes"

    now = SystemClock().now()
    review = SkillReview(
        policy=partial(ask_policy, here.loaded, options),
        hooks=(partial(ask_plugins, here.environment, options),),
        person=person,
    )
    ready = installing.install(
        source,
        root,
        kind,
        ledger=here.skills.library.ledger,
        inspect=scan_files,
        gatekeeper=review,
        now=now,
        stamp=datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        slug=slug,
        force=options.force,
        report=ProgressLine(quiet=options.quiet),
    )
    return _report(ready, here)


def _report(ready: StagedSkill, here: SkillView) -> dict[str, Any]:
    known = [item.skill.name for item in here.list().items]
    manifest = ready.manifest
    needs = manifest.requires
    return {
        "name": manifest.name,
        "description": manifest.description,
        "target": str(ready.target),
        "files": ready.files,
        "treeSha256": ready.tree_sha256,
        "permissions": describe_permissions(manifest.permissions),
        "requires": {"bins": needs.bins, "anyBins": needs.any_bins, "env": needs.env},
        "install": [describe_step(step, here.skills.settings.install) for step in manifest.install],
        "lookalikes": lookalikes(manifest.name, known),
        "references": [str(reference) for reference in ready.outside],
        "findings": [finding_to_json(finding) for finding in ready.findings],
        "blocked": ready.critical,
    }


def _show_report(ready: StagedSkill, report: dict[str, Any]) -> None:
    say(f"{report['name']}: {report['description']}", err=True)
    say(f"{report['files']} files, {report['treeSha256']}, to {report['target']}", err=True)
    say(f"it says it may: {report['permissions']}", err=True)
    bullets("It can be mistaken for:", report["lookalikes"], err=True)
    bullets("It would like these programs (never installed unasked):", report["install"], err=True)
    bullets("It leads outside its directory:", report["references"], err=True)
    print_findings(ready.findings, err=True)


def _held_first(listed: AgentSkills, name: str) -> ListedSkill:
    """The skill called `name`; one that is held back comes before another of the same name."""
    found = listed.get(name)
    for hidden in listed.shadowed:
        if hidden.trust.held and hidden.skill.name == found.skill.name and not found.trust.held:
            return ListedSkill(skill=hidden.skill, trust=hidden.trust, verdict=SkillVerdict(eligible=False))
    return found


COMMANDS = (trust, untrust, diff, install, update, remove, new, pack, deps)
