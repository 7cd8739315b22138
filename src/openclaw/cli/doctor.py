"""`openclaw doctor`: what is wrong here, and what can be done about it."""

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openclaw.gateway.doctor import DoctorFinding

COLOURS = {"critical": "red", "warn": "yellow", "info": "cyan"}


@click.command("doctor")
@click.option("--fix", "--repair", "fix", is_flag=True, help="Repair what is safe to repair, after showing the plan.")
@click.option("--yes", is_flag=True, help="Do not ask before repairing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(fix: bool, yes: bool, as_json: bool) -> None:
    """Find out what is wrong here. Exits with 1 when something critical remains."""
    import sys

    from openclaw.cli.output import print_json
    from openclaw.gateway import doctor
    from openclaw.gateway.checks import CHECKS
    from openclaw.gateway.surroundings import Environment

    surroundings = Environment.of_process()
    scene = doctor.look(surroundings)
    findings = doctor.examine(scene, CHECKS)
    if not as_json:
        _show(findings)
    repaired: list[tuple[doctor.DoctorFinding, str]] = []
    if fix and any(finding.fix for finding in findings):
        if not as_json:
            _show_plan(findings)
        if yes or (not as_json and sys.stdin.isatty() and click.confirm("Do this?")):
            repaired = list(doctor.repair(findings))
            scene = doctor.look(surroundings)
            findings = doctor.examine(scene, CHECKS)
        elif not as_json:
            click.echo("Nothing was changed. Add --yes to go on without a question.")
    counts = doctor.summary(findings)
    if as_json:
        print_json(
            {
                **doctor.report(scene, findings),
                "repaired": [
                    {"checkId": finding.id, "plan": finding.fix.plan if finding.fix else "", "error": error or None}
                    for finding, error in repaired
                ],
            }
        )
    else:
        for finding, error in repaired:
            plan = finding.fix.plan if finding.fix else ""
            click.echo(f"failed: {plan}: {error}" if error else f"done: {plan}")
        if repaired:
            click.echo(f"Left: {counts['critical']} critical, {counts['warn']} warnings.")
    if counts["critical"]:
        raise click.exceptions.Exit(1)


def _show(findings: "Sequence[DoctorFinding]") -> None:
    from openclaw.core.visible import printable

    if not findings:
        click.echo("Everything is fine.")
    for finding in findings:
        mark = click.style(f"{finding.severity:<8}", fg=COLOURS[finding.severity])
        click.echo(f"{mark} {printable(finding.title)}  [{finding.id}]")
        for line in finding.detail.splitlines():
            click.echo(f"           {printable(line)}")
        if finding.remediation:
            click.echo(f"         → {finding.remediation}")


def _show_plan(findings: "Sequence[DoctorFinding]") -> None:
    click.echo("\nPlan:")
    for finding in findings:
        if finding.fix is not None:
            click.echo(f"  {finding.id}: {finding.fix.plan}")
