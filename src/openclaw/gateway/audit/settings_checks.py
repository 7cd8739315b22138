"""Judges a configuration: yields the ids of checks that fail, each with what it found. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_network
from urllib.parse import urlsplit

from msgspec import Struct

from openclaw.channels.settings import ChannelSettings
from openclaw.config.schema import Config
from openclaw.models.tiers import is_below, tier_of
from openclaw.protocol.auth import GUESS_PROOF_CHARS
from openclaw.protocol.peer import is_loopback
from openclaw.security import scan
from openclaw.security.labels import DEFAULT_TABLE

Found = tuple[str, str]
"""The id of a check, and what it found."""

LEAST_TOKEN = 24
HEARTBEAT_CHARS = 4_000
MOST_ATTEMPTS = 100
_STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}
_EXAMPLES = ("changeme", "change-me", "secret", "password", "token", "your-token", "example", "openclaw", "test")
INTERPRETERS = frozenset("bash sh zsh dash fish python python3 node deno bun ruby perl php lua env sudo xargs".split())


class AuditFacts(Struct, frozen=True, kw_only=True):
    """A configuration and what is known beside it."""

    config: Config
    secret: str = ""
    """The gateway's token or password, where the configuration or the environment names one."""
    exposed: bool = False
    """Whether other machines reach the gateway."""
    models: Mapping[str, str] = {}
    """The model of each agent."""


def judge_settings(facts: AuditFacts) -> Iterator[Found]:
    for check in (_gateway, _webhooks, _commands, _labels, _people, _boxes, _extensions, _models, _heartbeats):
        yield from check(facts)


def _gateway(facts: AuditFacts) -> Iterator[Found]:
    settings, secret = facts.config.gateway, facts.secret
    auth = settings.auth
    if auth.mode == "none":
        yield ("gateway.bind_no_auth" if facts.exposed else "gateway.loopback_no_auth"), "gateway.auth.mode is none"
    if secret and len(secret) < LEAST_TOKEN:
        kind = "password" if auth.mode == "password" else "token"
        yield (
            f"gateway.{kind}_too_short",
            f"{len(secret)} characters, {LEAST_TOKEN} are the least, {GUESS_PROOF_CHARS} good",
        )
    if secret and secret.strip().lower() in _EXAMPLES:
        yield "gateway.secret_placeholder", "it is a word from examples"
    if "*" in settings.control_ui.allowed_origins:
        yield "gateway.allowed_origins_wildcard", "gateway.controlUi.allowedOrigins has *"
    if facts.exposed and not settings.tls.enabled and not settings.trusted_proxies:
        yield "gateway.no_encryption", f"gateway.bind is {settings.bind}"
    if wide := [proxy for proxy in settings.trusted_proxies if _is_wide(proxy)]:
        yield "gateway.trusted_proxies_wide", ", ".join(wide)
    if auth.mode == "trusted-proxy" and not auth.trusted_proxy.allow_users:
        yield "gateway.proxy_without_list", "gateway.auth.trustedProxy.allowUsers is empty"
    limits = auth.rate_limit
    if limits.exempt_loopback or limits.max_attempts > MOST_ATTEMPTS or limits.lockout_ms < 10_000:
        yield "gateway.rate_limit_weak", f"{limits.max_attempts} attempts, locked for {limits.lockout_ms // 1000} s"
    endpoints = settings.http.endpoints
    if endpoints.chat_completions.enabled or endpoints.responses.enabled:
        yield "gateway.http_endpoints", "gateway.http.endpoints"


def _is_wide(proxy: str) -> bool:
    try:
        return ip_network(proxy, strict=False).prefixlen < 8
    except ValueError:
        return proxy == "*"


def _webhooks(facts: AuditFacts) -> Iterator[Found]:
    hooks = facts.config.hooks
    token = hooks.token.reveal() if hooks.token else ""
    if token and token == facts.secret:
        yield "hooks.token_reuse_gateway_token", "hooks.token"
    if token and len(token) < LEAST_TOKEN:
        yield "hooks.token_too_short", f"{len(token)} characters, {LEAST_TOKEN} are the least"
    if hooks.allow_request_session_key:
        yield "hooks.request_session_key_enabled", "hooks.allowRequestSessionKey"
        if not hooks.allowed_session_key_prefixes:
            yield "hooks.session_key_prefixes_missing", "hooks.allowedSessionKeyPrefixes is empty"
    if hooks.enabled and not hooks.allowed_agent_ids and len(facts.models) > 1:
        yield "hooks.agents_unrestricted", "hooks.allowedAgentIds is empty"


def _commands(facts: AuditFacts) -> Iterator[Found]:
    config, tools = facts.config, facts.config.tools
    if tools.exec.security == "full":
        yield "tools.exec.security_full_configured", f"tools.exec.ask is {tools.exec.ask}"
    if not tools.exec.strict_inline_eval:
        yield "tools.exec.inline_eval_lax", "tools.exec.strictInlineEval is off"
    wild = [name for name, who in tools.elevated.allow_from.items() if "*" in map(str, who)]
    wild += [
        f"{agent.id}: {name}"
        for agent in config.agents.list
        for name, who in (agent.tools.elevated.allow_from.items() if agent.tools else ())
        if "*" in map(str, who)
    ]
    if wild:
        yield "tools.elevated.wildcard", ", ".join(wild)
    defaults = config.agents.defaults
    if defaults.elevated_default not in (None, False, "off"):
        yield "tools.elevated.default_on", f"agents.defaults.elevatedDefault is {defaults.elevated_default}"
    if defaults.acknowledge_elevated_default:
        yield "tools.elevated.acknowledged", "agents.defaults.acknowledgeElevatedDefault"
    if not tools.fs.workspace_only:
        yield "tools.fs.reaches_everything", "tools.fs.workspaceOnly is off"
    if tools.web.fetch.ssrf_policy.dangerously_allow_private_network:
        yield "tools.web.private_network", "tools.web.fetch.ssrfPolicy"
    if config.browser.ssrf_policy.dangerously_allow_private_network:
        yield "browser.private_network", "browser.ssrfPolicy"
    if config.browser.no_sandbox:
        yield "browser.no_sandbox", "browser.noSandbox"
    if tools.sessions.visibility == "all":
        yield "tools.sessions.all_visible", "tools.sessions.visibility is all"
    if not tools.loop_detection.enabled:
        yield "tools.loop_detection_off", "tools.loopDetection.enabled is off"


def _labels(facts: AuditFacts) -> Iterator[Found]:
    security = facts.config.security
    external = security.external_content
    if external.taint_tools == "off":
        yield "security.taint_off", "security.externalContent.taintTools is off"
    if not security.prompt_boundaries:
        yield "security.boundaries_off", "security.promptBoundaries is off"
    looser = [
        f"{label}.{action}: {word}"
        for label, row in external.table.items()
        for action, word in row.items()
        if _STRICTNESS[word] < _STRICTNESS[DEFAULT_TABLE[action][label]]
    ]
    if looser:
        yield "security.table_loosened", ", ".join(looser)
    wide = [path for path in external.trusted_paths if path.rstrip("/") in ("", "~", "/home", "/tmp", "~/Downloads")]  # noqa: S108
    if wide:
        yield "security.trusted_paths_wide", ", ".join(path or "/" for path in wide)
    if not (security.breaker.deletes_per_minute and security.breaker.sends_per_minute):
        yield "security.breaker_off", "security.breaker has a 0"
    if not security.undo.enabled:
        yield "security.undo_off", "security.undo.enabled is off"
    if facts.config.logging.redact_sensitive == "off":
        yield "logging.redaction_off", "logging.redactSensitive is off"


def _people(facts: AuditFacts) -> Iterator[Found]:
    config = facts.config
    commands = config.commands
    channels = {name: each for name, each in config.channels.items() if each.enabled}
    if commands.owner_display == "raw":
        yield "owner.display_raw", "commands.ownerDisplay is raw"
    if channels and not commands.owner_allow_from:
        yield "owner.unset", "commands.ownerAllowFrom is empty"
    if wild := [name for name, who in commands.allow_from.items() if "*" in map(str, who)]:
        yield "commands.open", ", ".join(wild)
    if commands.config:
        yield "commands.config_from_chat", "commands.config"
    strangers = [name for name, each in channels.items() if _hears_strangers(each)]
    if strangers:
        yield "channels.dm_open", ", ".join(strangers)
    groups = [
        name
        for name, each in channels.items()
        if each.group_policy == "open"
        and not (each.allow_from if each.group_allow_from is None else each.group_allow_from)
    ]
    if groups:
        yield "channels.group_open", ", ".join(groups)
    if (strangers or groups) and config.tools.exec.security == "full":
        yield "security.exposure.strangers_with_exec", ", ".join((*strangers, *groups))
    if (strangers or groups) and config.agents.defaults.sandbox.mode in (None, "off"):
        yield "sandbox.off_with_strangers", ", ".join((*strangers, *groups))
    reached = [f"{name}: {each.dm_policy}" for name, each in channels.items()]
    ways = [f"gateway: {'the network' if facts.exposed else 'this machine'}", *reached]
    ways += ["webhooks"] if config.hooks.enabled else []
    yield "summary.attack_surface", "\n".join((*ways, f"commands: {config.tools.exec.security}"))


def _hears_strangers(channel: ChannelSettings) -> bool:
    return channel.dm_policy == "open" or "*" in map(str, channel.allow_from)


def _boxes(facts: AuditFacts) -> Iterator[Found]:
    box = facts.config.agents.defaults.sandbox.docker
    if box.network not in (None, "none"):
        yield "sandbox.network", f"network is {box.network}"
    if writable := [bind for bind in box.binds or () if bind.endswith(":rw")]:
        yield "sandbox.writable_mount", ", ".join(writable)
    lifted = [name for name, given in (("pidsLimit", box.pids_limit), ("memory", box.memory), ("disk", box.disk))
              if given is not None and str(given).strip() in ("0", "0g", "0m")]  # fmt: skip
    if lifted:
        yield "sandbox.limits_lifted", ", ".join(lifted)


def _extensions(facts: AuditFacts) -> Iterator[Found]:
    plugins, skills = facts.config.plugins, facts.config.skills
    on = {name: each for name, each in plugins.entries.items() if plugins.enabled and each.enabled is not False}
    if (on or plugins.load.paths) and not plugins.allow:
        yield "plugins.no_allowlist", ", ".join((*on, *plugins.load.paths))
    for check, names in (
        ("plugins.in_process", [name for name, each in on.items() if each.isolation == "inprocess"]),
        ("plugins.prompt_replace", [name for name, each in on.items() if each.hooks.allow_prompt_replace]),
        ("plugins.model_override", [name for name, each in on.items() if each.hooks.allow_model_override]),
        ("plugins.reads_conversations", [name for name, each in on.items() if each.hooks.allow_conversation_access]),
    ):
        if names:
            yield check, ", ".join(names)
    if skills.trust == "off":
        yield "skills.trust_off", "skills.trust is off"
    if not skills.verify:
        yield "skills.verify_off", "skills.verify is off"
    if skills.permissions == "off":
        yield "skills.permissions_off", "skills.permissions is off"
    servers = {name: each for name, each in facts.config.mcp.servers.items() if each.enabled}
    if names := [name for name, each in servers.items() if not each.ssl_verify]:
        yield "mcp.certificate_unchecked", ", ".join(names)
    if names := [name for name, each in servers.items() if _is_plain(each.url)]:
        yield "mcp.plain_http", ", ".join(names)


def _models(facts: AuditFacts) -> Iterator[Found]:
    providers = facts.config.models.providers
    if names := [name for name, each in providers.items() if _is_plain(each.base_url or "")]:
        yield "models.plain_http", ", ".join(names)
    weak = [f"{agent}: {model}" for agent, model in facts.models.items() if is_below(tier_of(model), "standard")]
    if weak and facts.config.tools.exec.security != "deny":
        yield "models.weak_tier", ", ".join(weak)


def _is_plain(url: str) -> bool:
    """Whether an address is asked without encryption, beyond this machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme == "http" and not is_loopback(parts.hostname or "localhost")


def _heartbeats(facts: AuditFacts) -> Iterator[Found]:
    agents = facts.config.agents
    given = {"agents.defaults": agents.defaults.heartbeat, **{agent.id: agent.heartbeat for agent in agents.list}}
    texts = {name: each.prompt for name, each in given.items() if each is not None and each.prompt}
    bad = [f"{name}: {finding}" for name, text in texts.items() for finding in scan.scan(text)[:3]]
    if bad:
        yield "heartbeat.prompt_suspicious", "\n".join(bad)
    if long := [f"{name}: {len(text)} characters" for name, text in texts.items() if len(text) > HEARTBEAT_CHARS]:
        yield "heartbeat.prompt_long", ", ".join(long)


def judge_allowlist(entries: Sequence[Mapping[str, object]]) -> Iterator[Found]:
    """Judges what was allowed for good."""
    patterns = [(str(each.get("pattern", "")), bool(each.get("argPattern"))) for each in entries]
    if everything := [text for text, _ in patterns if text.strip("*/ ") == ""]:
        yield "approvals.allows_everything", ", ".join(everything)
    loose = [text for text, bound in patterns if not bound and text.rpartition("/")[2] in INTERPRETERS]
    if loose:
        yield "approvals.allows_interpreters", ", ".join(loose)
