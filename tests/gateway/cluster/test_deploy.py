"""The Dockerfile and compose.cluster.yaml: what they say is understood by our program, and runs without Docker."""

import asyncio
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from openclaw.cli.root import root
from openclaw.config.load import load
from openclaw.core.secret import Secret
from openclaw.process.environment import Environment
from openclaw.testing import TemporaryHome
from tests.gateway.cluster.nodes import Node

TOP = Path(__file__).parents[3]
COMPOSE: dict[str, Any] = yaml.safe_load((TOP / "compose.cluster.yaml").read_text())
NODES = ("one", "two", "three")


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile, one instruction each, with continued lines put together."""
    text = re.sub(r"\\\n\s*", "", (TOP / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines]


def check_command(words: list[str]) -> None:
    """Parses `openclaw WORDS…` down to the last option; raises what a person would be told."""
    command, context = root.get_command(click.Context(root), words[0]), click.Context(root)
    rest = words[1:]
    while isinstance(command, click.Group):
        found = command.get_command(context, rest[0])
        assert found is not None, f"no command {words}"
        command, rest = found, rest[1:]
    assert command is not None, f"no command {words}"
    command.make_context("openclaw", list(rest))


def test_every_command_in_them_is_one_of_ours() -> None:
    said = dict(instructions())
    assert json.loads(said["ENTRYPOINT"]) == ["openclaw"]
    check_command(json.loads(said["CMD"]))
    health = json.loads(said["HEALTHCHECK"].partition(" CMD ")[2])
    assert health[0] == "openclaw"
    check_command(health[1:])
    for name in NODES:
        service = COMPOSE["services"][name]
        check_command(service["command"])
        assert service["healthcheck"]["test"][:2] == ["CMD", "openclaw"]
        check_command(service["healthcheck"]["test"][2:])


def test_the_image_has_the_driver_runs_as_nobody_special_and_copies_what_is_there() -> None:
    said = instructions()
    assert said[0][0] == "FROM" and re.search(r":\d", said[0][1]), "the base image has a version"
    assert dict(said)["USER"] not in ("root", "0")
    extras = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    installed = next(text for word, text in said if word == "RUN" and "pip install" in text)
    assert all(name in extras for name in re.findall(r"\[([\w,]+)\]", installed)[0].split(","))
    for word, text in said:
        assert word != "ADD"
        if word == "COPY":
            assert all((TOP / path).exists() for path in text.split()[:-1]), text


def test_the_services_belong_together() -> None:
    services, volumes = COMPOSE["services"], COMPOSE["volumes"]
    states = [service["volumes"][0] for name, service in services.items() if name in NODES]
    assert len(set(states)) == 3, "each node has a state directory of its own"
    assert all("workspaces:/workspaces" in services[name]["volumes"] for name in NODES), "they share the workspaces"
    for service in services.values():
        for volume in service.get("volumes", ()):
            assert volume.partition(":")[0] in volumes
        for config in service.get("configs", ()):
            assert config["source"] in COMPOSE["configs"]
        for other in service.get("depends_on", ()):
            assert other in services
    proxied = COMPOSE["configs"]["caddy"]["content"]
    assert all(f"{name}:18789" in proxied for name in NODES) and "/readyz" in proxied


def configuration() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(COMPOSE["configs"]["openclaw"]["content"].replace("$$", "$"))
    return found


def test_the_configuration_is_valid_and_reads_the_address_from_the_environment(tmp_path: Path) -> None:
    home = TemporaryHome(tmp_path)
    home.configure(configuration())
    environ = {**home.environ, "STORE_URL": "postgresql://somebody:hidden@postgres:5432/openclaw"}
    loaded = load(Environment(environ=environ, home_dir=tmp_path, cwd=tmp_path).home, environ)
    assert not loaded.issues and not loaded.warnings
    url = loaded.config.store.url
    assert isinstance(url, Secret) and url.reveal() == environ["STORE_URL"]
    assert "hidden" not in repr(loaded.config)


@pytest.mark.servers
@pytest.mark.anyio
async def test_its_command_runs_as_a_node(tmp_path: Path, postgres_url: Secret) -> None:
    environment = COMPOSE["services"]["one"]["environment"]
    config = json.loads(json.dumps(configuration()).replace("/workspaces", str(tmp_path / "workspaces")))
    node = Node(tmp_path, environment["OPENCLAW_NODE_NAME"], "${STORE_URL}", config, "--bind", "lan")
    node.home.more["STORE_URL"] = postgres_url.reveal()
    assert COMPOSE["services"]["one"]["command"] == ["gateway", "run", *node.options]
    with node:
        async with node.client() as client:
            async with asyncio.timeout(60):
                while not all(each["agents"] for each in (await client.call("cluster.status"))["nodes"]):
                    await asyncio.sleep(0.05)
            told = await client.call("cluster.status")
            assert told["nodes"][0]["name"] == "one" and told["nodes"][0]["agents"] == ["main", "team"]
