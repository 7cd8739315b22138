"""The work of `openclaw gateway run`."""

from typing import Any

from openclaw.core.secret import Secret
from openclaw.gateway import daemon
from openclaw.gateway.exposure import ExposureOptions
from openclaw.gateway.serve import compose
from openclaw.process.environment import Environment


def run_gateway(
    token: str | None = None,
    password: str | None = None,
    force: bool = False,
    verbose: bool = False,
    safe_mode: Any = "auto",
    no_console: bool = False,
    **wishes: Any,
) -> None:
    """Runs a gateway until it is stopped."""
    options = daemon.DaemonOptions(
        wishes=ExposureOptions(
            token=Secret(token) if token else None, password=Secret(password) if password else None, **wishes
        ),
        force=force,
        verbose=verbose,
        console=not no_console,
        safe_mode=safe_mode,
    )
    daemon.run(options, Environment.of_process(), compose)
