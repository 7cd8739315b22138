"""`openclaw skills`: list, inspect, verify, accept, install and make skills."""

import builtins
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from openclaw.agent.settings import default_agent, resolve_agent
from openclaw.cli.extensions.verbs import ExtensionView, Installed, add_verbs, bullets, finding_to_json, print_findings
from openclaw.cli.render import (
    JSON,
    YES,
    ProgressLine,
    facts,
    note,
    now_ms,
    print_json,
    require_yes,
    say,
    shorten,
    show,
    table,
)
from openclaw.config.live import LiveConfig
from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.extensions.install import repair_interrupted
from openclaw.process.tasks import SystemClock
from openclaw.skills import install as installing
from openclaw.skills.accepted import AcceptedSkills, make_entry
from openclaw.skills.catalog import shorten_path
from openclaw.skills.gate import ListedSkill, SkillVerdict, describe_step, steps_for
from openclaw.skills.install import StagedSkill, lookalikes, origin_of, slug_of
from openclaw.skills.service import AgentSkills, SkillService
from openclaw.workspace.seed import workspace_of

agent_option = click.option(
    "--agent", "agent_id", metavar="ID", help="As this agent has it; the default agent when absent."
)
global_option = click.option(
    "--global", "everywhere", is_flag=True, help="For every agent, not only in this workspace."
)
as_option = click.option("--as", "directory", metavar="NAME", help="Its directory's name.")
skill_option = click.option(
    "--skill", "given", multiple=True, metavar="PATH", help="Also look here: a skill, or skills."
)


KEPT = ("openclaw-workspace", "openclaw-managed")
"""Where this program installs skills."""


class SkillView(ExtensionView[StagedSkill]):
    """The skills of this home, as one command needs them."""

    kind = StagedSkill
    entries = "skills.entries"

    def __init__(
        self,
        agent_id: str | None = None,
        given: tuple[str, ...] = (),
        everywhere: bool = False,
        directory: str | None = None,
    ) -> None:
        """New ones are installed for this agent or, with `everywhere`, for all."""
        super().__init__()
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
        self.root = self.managed if everywhere else self.workspace / "skills"
        self.directory = slug_of(directory) if directory else None
        for root in (self.managed, self.workspace / "skills"):
            repair_interrupted(root)

    @property
    def ledger(self) -> AcceptedSkills:
        return self.skills.library.ledger

    def list(self) -> AgentSkills:
        cwd = self.environment.cwd
        return self.skills.look(self.agent, self.workspace, cwd, first_use=False, given=self._given)

    def short(self, path: str) -> str:
        return shorten_path(path, str(self.environment.home_dir))

    def put(self, ready: StagedSkill, move: Callable[[], None]) -> None:
        everywhere = self.root.resolve() == self.managed.resolve()
        now = SystemClock().now()
        installing.put(
            ready,
            move,
            source="openclaw-managed" if everywhere else "openclaw-workspace",
            ledger=self.ledger,
            now=now,
            stamp=datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        )

    def report(self, ready: StagedSkill) -> dict[str, Any]:
        known = [item.skill.name for item in self.list().items]
        manifest, needs = ready.manifest, ready.manifest.requires
        return {
            "name": manifest.name,
            "description": manifest.description,
            "target": str(ready.target),
            "files": ready.files,
            "treeSha256": ready.tree_sha256,
            "permissions": describe_permissions(manifest.permissions),
            "requires": {"bins": needs.bins, "anyBins": needs.any_bins, "env": needs.env},
            "install": [describe_step(step, self.skills.settings.install) for step in manifest.install],
            "lookalikes": lookalikes(manifest.name, known),
            "references": [str(reference) for reference in ready.outside],
            "findings": [finding_to_json(finding) for finding in ready.findings],
            "blocked": ready.critical,
        }

    def show_report(self, ready: StagedSkill, report: dict[str, Any]) -> None:
        say(f"{report['name']}: {report['description']}", err=True)
        say(f"{report['files']} files, {report['treeSha256']}, to {report['target']}", err=True)
        say(f"it says it may: {report['permissions']}", err=True)
        bullets("It can be mistaken for:", report["lookalikes"], err=True)
        bullets("It would like these programs (never installed unasked):", report["install"], err=True)
        bullets("It leads outside its directory:", report["references"], err=True)
        print_findings(ready.findings, err=True)

    def question(self, ready: StagedSkill, report: dict[str, Any]) -> str:
        doubtful = ready.findings or report["references"] or report["lookalikes"]
        return f"Install {ready.name} all the same?" if doubtful else ""

    def installed(self) -> builtins.list[Installed]:
        kept = [item.skill.name for item in self.list().items if item.skill.source in KEPT]
        return [one for name in kept if (one := self.find(name)).spec]

    def find(self, name: str) -> Installed:
        skill = self.list().get(name).skill
        if skill.source not in KEPT:
            raise InvalidRequest(
                f"{skill.name} is not kept by this program ({skill.source}): remove it where it is, "
                f"or switch it off with openclaw skills disable {skill.name}"
            )
        origin = origin_of(Path(skill.base_dir))
        target = Path(skill.file_path).parent
        return Installed(name=skill.name, target=target, record=skill.base_dir, spec=origin.spec if origin else "")

    def entry(self, name: str) -> tuple[str, str]:
        manifest = self.list().get(name).skill.manifest
        return manifest.name, manifest.key

    def reasons(self, name: str) -> tuple[str, ...]:
        return self.list().get(name).verdict.reasons


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


@click.group("skills")
def skills_command() -> None:
    """What the assistant can do beyond its tools: abilities kept as files."""


# Verbs that only read.


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


# Verbs that change something.


@skills_command.command("trust")
@click.argument("name")
@YES
@skill_option
def trust(name: str, yes: bool, given: tuple[str, ...]) -> None:
    """Accept NAME as it is now. Shows first what changed, or what is in it."""
    here = SkillView(given=given)
    item = _held_first(here.list(), name)
    if item.skill.bundled:
        raise InvalidRequest(f"{item.skill.name} comes with OpenClaw: there is nothing to accept")
    ledger = here.ledger
    for line in ledger.diff(item.skill, ledger.read().get(item.skill.base_dir)):
        say(line)
    print_findings(here.skills.library.findings(item.skill))
    click.echo(f"{here.short(item.skill.base_dir)}\nmay: {describe_permissions(item.skill.manifest.permissions)}")
    require_yes(f"Accept {item.skill.name}?", yes, "not accepted")
    ledger.accept({item.skill.base_dir: make_entry(item.skill, "owner", now_ms())})
    click.echo(f"{item.skill.name} is accepted as it is now.")


@skills_command.command("untrust")
@click.argument("name")
@skill_option
def untrust(name: str, given: tuple[str, ...]) -> None:
    """Hold NAME back until it is accepted again."""
    here = SkillView(given=given)
    item = here.list().get(name)
    if item.skill.bundled:
        name = item.skill.name
        raise InvalidRequest(f"switch it off instead: openclaw config set skills.entries.{name}.enabled false")
    here.ledger.refuse(item.skill.base_dir, make_entry(item.skill, "owner", now_ms()))
    click.echo(f"{item.skill.name} is held back. openclaw skills trust {item.skill.name} takes that back.")


@skills_command.command("diff")
@click.argument("name")
@skill_option
def diff(name: str, given: tuple[str, ...]) -> None:
    """What changed in NAME since it was accepted."""
    here = SkillView(given=given)
    item = _held_first(here.list(), name)
    ledger = here.ledger
    known = ledger.read().get(item.skill.base_dir)
    lines = ledger.diff(item.skill, known)
    for line in lines:
        say(line)
    if known is None:
        note(f"{item.skill.name} was never accepted, so all of it is new.")
    elif not lines:
        note(f"{item.skill.name} is as it was accepted.")


@skills_command.command("new")
@click.argument("name")
@click.option("--description", default="", help="What it does, and when to use it.")
@global_option
def new(name: str, description: str, everywhere: bool) -> None:
    """A new skill to start from."""
    click.echo(str(installing.new(SkillView(everywhere=everywhere).root, name, description)))


@skills_command.command("pack")
@click.argument("directory", type=click.Path(exists=True, file_okay=False))
@click.option(
    "-o", "--output", type=click.Path(), metavar="FILE", help="A .tgz or .zip; named after the skill when absent."
)
def pack(directory: str, output: str | None) -> None:
    """A skill as one file, to hand on."""
    click.echo(str(installing.pack(Path(directory), Path(output) if output else None, Path.cwd())))


@skills_command.command("deps")
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


def _held_first(listed: AgentSkills, name: str) -> ListedSkill:
    """The skill called `name`; one that is held back comes before another of the same name."""
    found = listed.get(name)
    for hidden in listed.shadowed:
        if hidden.trust.held and hidden.skill.name == found.skill.name and not found.trust.held:
            return ListedSkill(skill=hidden.skill, trust=hidden.trust, verdict=SkillVerdict(eligible=False))
    return found


add_verbs(skills_command, SkillView, global_option, as_option, agent_option)
