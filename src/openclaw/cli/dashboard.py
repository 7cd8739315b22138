"""`openclaw dashboard`: the web page, opened with a link that works once."""

import click


@click.command("dashboard")
@click.option("--no-open", is_flag=True, help="Only print the link.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document; opens nothing.")
def command(no_open: bool, as_json: bool) -> None:
    """Open the web page of the gateway, which is started when it does not run.

    The link works once and for two minutes. It carries a code, not the token, and the page takes it out of the
    address at once.
    """
    from openclaw.cli.output import print_json
    from openclaw.gateway.app import Surroundings
    from openclaw.gateway.reach import ask, find

    surroundings = Surroundings.of_process()
    address = web_address(surroundings)
    try:
        link = ask(find(surroundings), "dashboard.link", {}, timeout=10)
    except Exception as error:
        raise _explained(error) from error
    url = address + link["path"]
    if as_json:
        print_json({"url": url, "address": address, "expiresAtMs": link["expiresAtMs"]})
        return
    if no_open or not click.launch(url) == 0:
        click.echo("Open this link within two minutes; it works once:")
    click.echo(url)
