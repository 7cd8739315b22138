"""`openclaw dashboard`: the web page, opened with a link that works once."""

import click


@click.command("dashboard")
@click.option("--no-open", is_flag=True, help="Only print the link.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document; opens nothing.")
def command(no_open: bool, as_json: bool) -> None:
    """Open the web page of the gateway, which is started when it does not run.

    The link works once, for two minutes. It carries a code and not the token, and the page takes the code out of the
    address at once.
    """
    import os
    import sys

    from openclaw.cli.output import print_json
    from openclaw.cli.starting import gateway_up, web_address
    from openclaw.core.errors import InvalidRequest
    from openclaw.gateway.reach import call_gateway, find
    from openclaw.gateway.surroundings import Environment
    from openclaw.wire.client import CallFailed

    surroundings = Environment.of_process()
    address = web_address(gateway_up(surroundings))
    try:
        link = call_gateway(find(surroundings), "dashboard.link", {}, timeout=10)
    except CallFailed as error:
        if not error.message.startswith("unknown method"):
            raise
        raise InvalidRequest("the web page is switched off: set gateway.controlUi.enabled to true") from error
    url = address + link["path"]
    if as_json:
        print_json({"url": url, "address": address, "expiresAtMs": link["expiresAtMs"]})
        return
    # Without a screen a browser would take over this terminal.
    has_screen = sys.platform in ("darwin", "win32") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    if no_open or not has_screen or click.launch(url) != 0:
        click.echo("Open this link in a browser on this machine within two minutes; it works once:", err=True)
        click.echo(url)
        return
    click.echo(f"opened {address} in your browser")
