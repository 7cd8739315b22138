"""What `openclaw skills`, `plugins` and `hooks` share: the verbs that install and switch, and who may object."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar, cast

import click
from msgspec import Struct

from openclaw.cli.home import open_editor, read_home
from openclaw.cli.render import JSON, YES, ProgressLine, confirm, print_json, require_yes, say, show
from openclaw.config.load import LoadedConfig
from openclaw.core.errors import InvalidRequest, OpenClawError
from openclaw.extensions.install import InstallReview, StagedPackage, install, remove_package, stage
from openclaw.gateway.client_target import find_gateway
from openclaw.gateway.running import call_gateway, running_gateway
from openclaw.process.environment import Environment
from openclaw.security import install_policy
from openclaw.security.install_scan import scan_files
from openclaw.storage.accepted import AcceptedStore

HOOK_SECONDS = 120.0
"""For all plugins together; each has its own, shorter limit."""
GRAVE = "a look through it found something grave. If you have read it and still want it: --accept-risk"

S = TypeVar("S", bound=StagedPackage)


class InstallOptions(Struct, frozen=True, kw_only=True):
    """What the person said beforehand."""

    force: bool = False
    """Replace what is there."""
    yes: bool = False
    accept_risk: bool = False
    quiet: bool = False
    mode: Literal["install", "update"] = "install"


def ask_policy(loaded: LoadedConfig, options: InstallOptions, ready: StagedPackage) -> str:
    """Why the operator's policy stops the install; empty when it does not."""
    question = install_policy.PolicyQuestion(
        target=ready.noun,
        name=ready.name,
        staged=ready.directory,
        kind=ready.kind,
        spec=ready.spec,
        tree_sha256=ready.tree_sha256,
        mode=options.mode,
    )
    return install_policy.ask(question, loaded.config.security.install_policy, loaded.variables, confirm)


def ask_plugins(environment: Environment, options: InstallOptions, ready: StagedPackage) -> str:
    """Why a plugin stops the install; empty when none does. Without a gateway no plugin listens; a gateway that does
    not answer is a reason to stop."""
    found = running_gateway(environment.home.state)
    if found is None or not found.port:
        return ""
    params = {
        "targetType": ready.noun,
        "targetName": ready.name,
        "sourcePath": str(ready.directory),
        "spec": ready.spec,
        "treeSha256": ready.tree_sha256,
        "mode": options.mode,
        "findings": [finding_to_json(each) for each in ready.findings],
    }
    try:
        answer = call_gateway(find_gateway(environment), "install.check", params, timeout=HOOK_SECONDS)
    except (OpenClawError, OSError) as error:
        why = error.message if isinstance(error, OpenClawError) else str(error)
        return f"the plugins of the running gateway could not be asked ({why}). Stop it, or try again"
    return f"the plugin {answer['plugin']} objects: {answer['reason']}" if answer["blocked"] else ""


def finding_to_json(finding: Any) -> dict[str, Any]:
    names = ("severity", "message", "file", "line")
    return {"ruleId": finding.rule, **{name: getattr(finding, name) for name in names}}


def print_findings(findings: Iterable[Any], *, err: bool = False) -> None:
    bullets("A look through its files found:", [str(each) for each in findings], err=err)


def bullets(heading: str, lines: Sequence[str], *, err: bool = False) -> None:
    if heading and (lines or not heading.endswith(":")):
        say(f"\n{heading}", err=err)
    for line in lines:
        say(f"  {line}", err=err)


# The verbs that change something.


class Installed(Struct, frozen=True, kw_only=True):
    """An extension in a directory of ours."""

    name: str
    target: Path
    record: str
    """Its key among what was accepted."""
    spec: str = ""
    """Where it was installed from; empty when it was put there by hand."""


class ExtensionView(ABC, Generic[S]):
    """The extensions of one kind in this home, as the verbs that change them need them."""

    kind: ClassVar[type[StagedPackage]]
    entries: ClassVar[str]
    """Where in the configuration they have their settings."""
    root: Path
    """Where new ones are installed."""
    directory: str | None = None
    """The name of the new one's directory; its own name when absent."""
    updates_all = False
    """Whether `update` without a name means all of them."""

    def __init__(self) -> None:
        self.environment, self.loaded = read_home()

    @abstractmethod
    def put(self, ready: S, move: Callable[[], None]) -> None:
        """Records that `ready` was accepted, and moves it into place."""

    @abstractmethod
    def report(self, ready: S) -> dict[str, Any]: ...

    @abstractmethod
    def show_report(self, ready: S, report: dict[str, Any]) -> None: ...

    @abstractmethod
    def question(self, ready: S, report: dict[str, Any]) -> str:
        """What a person is asked before it is installed; empty when there is nothing to ask."""

    @abstractmethod
    def installed(self) -> list[Installed]:
        """Every one that was installed from somewhere."""

    @abstractmethod
    def find(self, name: str) -> Installed:
        """The one called `name`; raises when it is not in a directory of ours."""

    @abstractmethod
    def entry(self, name: str) -> tuple[str, str]:
        """The name it is known by, and its key among the settings."""

    @abstractmethod
    def reasons(self, name: str) -> Sequence[str]:
        """What keeps it from running."""

    def accept(self, name: str, yes: bool) -> None:
        """Accepts its files as they are now, where that takes more than switching it on."""

    @property
    @abstractmethod
    def ledger(self) -> AcceptedStore[Any]: ...

    def forget(self, one: Installed) -> None:
        """Drops the record that it was accepted."""
        self.ledger.forget(one.record)

    def switch(self, key: str, on: bool) -> dict[str, Any]:
        """The change of the configuration that switches it on or off."""
        patch: dict[str, Any] = {key: {"enabled": on}}
        for part in reversed(self.entries.split(".")):
            patch = {part: patch}
        return patch

    def changed(self, name: str) -> list[str]:
        """Has a running gateway take up what was installed or removed; gives its warnings."""
        return []

    def stage(self, source: Path, quiet: bool) -> AbstractContextManager[Any]:
        progress = ProgressLine(quiet=quiet)
        return stage(self.kind, source, self.root, scan_files, name=self.directory, force=True, report=progress)

    def install(self, source: Path, options: InstallOptions, expected: str = "") -> tuple[Any, dict[str, Any]]:
        """Stages the package, asks policy, hooks and person, and installs it; gives it with its report."""
        noun = self.kind.noun

        def policy(ready: S) -> str:
            if expected and ready.name != expected:
                return f"it calls itself {ready.name} now, not {expected}"
            return ask_policy(self.loaded, options, ready)

        def person(ready: S) -> str:
            report = self.report(ready)
            if not options.quiet:
                self.show_report(ready, report)
            if ready.critical and not options.accept_risk:
                return GRAVE
            question = self.question(ready, report)
            agreed = options.yes or options.accept_risk or not question or confirm(question)
            return "" if agreed else f"nobody agreed to this {noun}: answer yes at a terminal, or give --yes"

        hooks = (partial(ask_plugins, self.environment, options),)
        ready: Any = install(  # type: ignore[misc]
            self.kind,
            source,
            self.root,
            self.put,
            inspect=scan_files,
            review=InstallReview(policy=policy, hooks=hooks, person=person),
            name=self.directory,
            force=options.force,
            report=ProgressLine(quiet=options.quiet),
        )
        return ready, self.report(ready)


FORCE = click.option("--force", is_flag=True, help="Replace what is there.")
AGREE = click.option("--yes", is_flag=True, help="Agree without being asked.")
RISK = click.option("--accept-risk", is_flag=True, help="Install in spite of grave findings.")
DRY = click.option("--dry-run", is_flag=True, help="Only show the report.")


def add_verbs(group: click.Group, view: Callable[..., ExtensionView[Any]], *where: Callable[[Any], Any]) -> None:
    """Adds install, update, remove, enable and disable; `where` are further options of install, given to `view`."""
    noun = cast("Any", view).kind.noun

    @group.command("install", help=f"Install a {noun} from a directory or an archive (.tgz, .zip), after a look at it.")
    @click.argument("source", type=click.Path(exists=True))
    @_all_of(where)
    @FORCE
    @AGREE
    @RISK
    @DRY
    @JSON
    def install(
        source: str, force: bool, yes: bool, accept_risk: bool, dry_run: bool, as_json: bool, **place: Any
    ) -> None:
        here = view(**place)
        if dry_run:
            with here.stage(Path(source), as_json) as ready:
                report = here.report(ready)
                print_json(report) if as_json else here.show_report(ready, report)
            return
        options = InstallOptions(force=force, yes=yes, accept_risk=accept_risk, quiet=as_json)
        ready, report = here.install(Path(source), options)
        _tell(here, ready.name, f"installed {ready.name} in {ready.target}", as_json, report)

    @group.command("update", help=f"Install {noun}s again from where they came (NAME, or all).")
    @click.argument("name", required=False)
    @click.option("--all", "everything", is_flag=True, help="Every one that was installed.")
    @AGREE
    @RISK
    def update(name: str | None, everything: bool, yes: bool, accept_risk: bool) -> None:
        here = view()
        if bool(name) == (everything or (name is None and here.updates_all)):
            raise click.UsageError(f"name one {noun}, or say --all")
        found = [here.find(name)] if name else here.installed()
        for each in found:
            if not each.spec:
                raise InvalidRequest(f"{each.name} was not installed by this program: update it where it is kept")
            if not Path(each.spec).exists():
                raise InvalidRequest(f"{each.name} came from {each.spec}, which is not there any more")
            target = each.target.resolve()
            here.root, here.directory = target.parent, target.name if noun == "skill" else None
            options = InstallOptions(force=True, yes=yes, accept_risk=accept_risk, mode="update")
            here.install(Path(each.spec), options, expected=target.name)
            _tell(here, each.name, f"updated {each.name}", False, {})
        if not found:
            click.echo("Nothing to update.")

    @group.command("remove", help=f"Take an installed {noun} away.")
    @click.argument("name")
    @YES
    def remove(name: str, yes: bool) -> None:
        here = view()
        one = here.find(name)
        require_yes(f"Remove {one.target}?", yes, "not removed")
        remove_package(one.target, one.target.parent, partial(here.forget, one))
        with suppress(OpenClawError):  # the gateway answers that there is no such thing any more
            here.changed(one.name)
        click.echo(f"removed {one.name}")

    @group.command("enable", help=f"Switch a {noun} on; changed files are accepted as they are now.")
    @click.argument("name")
    @YES
    def enable(name: str, yes: bool) -> None:
        here = view()
        known, key = here.entry(name)
        here.accept(name, yes)
        open_editor().patch(here.switch(key, True))
        left = "; ".join(view().reasons(name))
        say(f"{known} is on, but does not run yet: {left}" if left else f"{known} is on.")

    @group.command("disable", help=f"Switch a {noun} off; a running gateway stops it at once.")
    @click.argument("name")
    def disable(name: str) -> None:
        here = view()
        known, key = here.entry(name)
        open_editor().patch(here.switch(key, False))
        click.echo(f"{known} is off.")


def _all_of(options: Sequence[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def _tell(here: ExtensionView[Any], name: str, said: str, as_json: bool, report: dict[str, Any]) -> None:
    """Prints what was done, and has a running gateway take it up."""
    try:
        warnings = here.changed(name)
    except OpenClawError as error:
        warnings = [f"the running gateway did not take it up: {error.message}"]
    show({"ok": True, **report, "warnings": warnings}, said, as_json)
    for warning in () if as_json else warnings:
        click.echo(warning, err=True)
