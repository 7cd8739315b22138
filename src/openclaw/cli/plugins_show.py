"""What `openclaw plugins` needs to say anything: the plugins as a command sees them, without starting any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pathlib import Path

    from openclaw.plugins.choose import PluginVerdict
    from openclaw.plugins.find import FoundPlugin, UnusablePlugin

as_json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document.")


class PluginView:
    """The plugins as this command sees them."""

    def __init__(self) -> None:
        from openclaw.config.load import load
        from openclaw.gateway.clock import SystemClock
        from openclaw.gateway.surroundings import Environment
        from openclaw.plugins.choose import judge
        from openclaw.plugins.find import look
        from openclaw.plugins.lock import AcceptedPlugins, digest_of
        from openclaw.skills.roots import expanded

        self.surroundings = Environment.of_process()
        home = self.surroundings.home
        self.loaded = load(home, self.surroundings.environ)
        self.settings = self.loaded.config.plugins
        self.installed: Path = home.state / "extensions"
        self.ledger = AcceptedPlugins(home.state)
        self.accepted = self.ledger.read()
        self.now = SystemClock().now
        user = self.surroundings.home_dir
        paths = [expanded(text, user, user) for text in self.settings.load.paths]
        self.found: tuple[FoundPlugin, ...]
        self.broken: tuple[UnusablePlugin, ...]
        self.found, self.broken = look(paths, self.installed)
        self.digests = {each.id: digest_of(each.directory) for each in self.found if each.source == "installed"}
        known = {name: each.tree_sha256 for name, each in self.accepted.items()}
        self.verdicts: dict[str, PluginVerdict] = judge(self.found, self.settings, known, self.digests)

    def get(self, name: str) -> FoundPlugin:
        from difflib import get_close_matches

        from openclaw.core.errors import NotFound

        for each in self.found:
            if each.id == name:
                return each
        for broken in self.broken:
            if broken.directory.name == name:
                raise NotFound(f"{name} cannot be a plugin: {broken.why}")
        near = get_close_matches(name, [each.id for each in self.found], n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise NotFound(f"there is no plugin {name}.{hint} openclaw plugins list shows those there are")

    def live(self) -> dict[str, dict[str, Any]]:
        """How the plugins of the running gateway fare, by id; nothing when none runs."""
        from openclaw.core.errors import OpenClawError
        from openclaw.gateway.lock import running
        from openclaw.gateway.reach import call_gateway, find

        if running(self.surroundings.home.state) is None:
            return {}
        try:
            told = call_gateway(find(self.surroundings), "plugins.list", {}, timeout=60.0)
        except (OpenClawError, OSError):
            return {}
        return {each["id"]: each for each in told["plugins"]}

    def reload(self, name: str) -> dict[str, Any] | None:
        """Has the running gateway start a plugin afresh; None when none runs."""
        from openclaw.gateway.lock import running
        from openclaw.gateway.reach import call_gateway, find

        if running(self.surroundings.home.state) is None:
            return None
        params = {"plugins": [{"pluginId": name}]}
        answer: dict[str, Any] = call_gateway(find(self.surroundings), "plugins.reload", params, timeout=120.0)
        return answer


def document(plugin: FoundPlugin, verdict: PluginVerdict, live: dict[str, Any] | None) -> dict[str, Any]:
    manifest = plugin.manifest
    return {
        "id": plugin.id,
        "name": manifest.title,
        "description": manifest.description,
        "version": manifest.version,
        "source": plugin.source,
        "directory": str(plugin.directory),
        "runs": verdict.runs,
        "why": verdict.why,
        "state": state_of(verdict, live),
        "error": (live or {}).get("error", ""),
    }


def state_of(verdict: PluginVerdict, live: dict[str, Any] | None) -> str:
    if not verdict.runs:
        return "held" if verdict.held else "off"
    if live is None:
        return "on"
    return {"enabled": "running", "error": "put away"}.get(live["state"], "on")


def asked(question: str) -> bool:
    """A person's yes; without a person the answer is no."""
    import sys

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    return click.confirm(question, default=False, err=True)
