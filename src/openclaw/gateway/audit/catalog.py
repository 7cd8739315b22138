"""Every check of the security audit: its severity, what is wrong, why it matters, and what mends it. Pure."""

from typing import Literal

from msgspec import Struct

AuditSeverity = Literal["critical", "warn", "info"]


class AuditRule(Struct, frozen=True, kw_only=True):
    """One check. `unsets` are the settings that `--fix` takes out."""

    id: str
    severity: AuditSeverity
    title: str
    why: str
    mend: str
    unsets: tuple[str, ...] = ()


def _rule(id: str, severity: AuditSeverity, title: str, why: str, mend: str, *unsets: str) -> AuditRule:  # noqa: A002
    return AuditRule(id=id, severity=severity, title=title, why=why, mend=mend, unsets=unsets)


def _unset(path: str) -> tuple[str, str]:
    return f"openclaw config unset {path}", path


_FILES = "openclaw security audit --fix"
_TAINT, _BOUNDS = _unset("security.externalContent.taintTools"), _unset("security.promptBoundaries")
_FETCH = _unset("tools.web.fetch.ssrfPolicy.dangerouslyAllowPrivateNetwork")
_BROWSER = _unset("browser.ssrfPolicy.dangerouslyAllowPrivateNetwork")
_RAW, _SESSION_KEY = _unset("commands.ownerDisplay"), _unset("hooks.allowRequestSessionKey")
_ELEVATED = _unset("agents.defaults.elevatedDefault")
_ACKNOWLEDGED = _unset("agents.defaults.acknowledgeElevatedDefault")
_REDACT, _INLINE = _unset("logging.redactSensitive"), _unset("tools.exec.strictInlineEval")
_VERIFY, _TRUST = _unset("skills.verify"), _unset("skills.trust")

CATALOG: tuple[AuditRule, ...] = (
    # Files.
    _rule("fs.state_dir.world_writable", "critical", "every user of this machine can write to the state directory",
          "whoever writes there decides what the assistant believes, allows and runs", _FILES),
    _rule("fs.state_dir.group_writable", "warn", "a group can write to the state directory",
          "its members decide what the assistant believes, allows and runs", _FILES),
    _rule("fs.state_dir.readable", "warn", "others can read the state directory",
          "conversations and credentials are in it", _FILES),
    _rule("fs.state_dir.symlink", "warn", "the state directory is a link",
          "whoever owns its target has the assistant", "openclaw doctor"),
    _rule("fs.state_dir.synced", "warn", "the state directory is in a folder that is copied to a cloud",
          "credentials and conversations leave this machine, and copies of databases break",
          "move it, and set OPENCLAW_STATE_DIR"),
    _rule("fs.config.writable", "critical", "others can write the configuration",
          "they can switch off every protection", _FILES),
    _rule("fs.config.readable", "critical", "others can read the configuration", "it may hold credentials", _FILES),
    _rule("fs.config.symlink", "warn", "the configuration is a link", "whoever owns its target writes it",
          "set OPENCLAW_CONFIG_PATH to the file itself"),
    _rule("fs.credentials.readable", "critical", "others can read stored credentials",
          "keys of models and channels are in them", _FILES),
    _rule("fs.approvals.writable", "critical", "others can write what may run without a question",
          "one line there runs any command", _FILES),
    _rule("fs.sessions.readable", "warn", "others can read conversations", "they hold what you said and what was read",
          _FILES),
    _rule("fs.logs.readable", "warn", "others can read the log", "it names people, files and commands", _FILES),
    # The gateway.
    _rule("gateway.bind_no_auth", "critical", "the gateway listens on a network without asking for a credential",
          "whoever reaches the port is the owner", "openclaw config unset gateway.auth.mode", "gateway.auth.mode"),
    _rule("gateway.loopback_no_auth", "critical", "the gateway asks nobody for a credential",
          "every program of this machine, and of every user of it, is the owner",
          "openclaw config unset gateway.auth.mode", "gateway.auth.mode"),
    _rule("gateway.token_too_short", "warn", "the gateway token is short", "short secrets are guessed",
          "openclaw config unset gateway.auth.token", "gateway.auth.token"),
    _rule("gateway.password_too_short", "warn", "the gateway password is short", "short secrets are guessed",
          "openclaw config set gateway.auth.password LONGER"),
    _rule("gateway.secret_placeholder", "critical", "the gateway secret is one from an example", "everybody knows it",
          "openclaw config unset gateway.auth.token", "gateway.auth.token"),
    _rule("gateway.allowed_origins_wildcard", "critical", "every web page may connect to the gateway",
          "a page you happen to open can use your session", "openclaw config unset gateway.controlUi.allowedOrigins",
          "gateway.controlUi.allowedOrigins"),
    _rule("gateway.no_encryption", "warn", "the gateway is reached over a network without encryption",
          "the token and all conversations can be read on the way", "openclaw config set gateway.tls.enabled true"),
    _rule("gateway.trusted_proxies_wide", "critical", "every address counts as a trusted proxy",
          "anybody can claim to be anybody, and to be this machine", "openclaw config unset gateway.trustedProxies"),
    _rule("gateway.proxy_without_list", "warn", "every user the proxy knows is let in",
          "one account of that proxy is enough",
          "openclaw config set gateway.auth.trustedProxy.allowUsers '[\"you@…\"]'"),
    _rule("gateway.rate_limit_weak", "warn", "credentials may be guessed quickly",
          "the limit on wrong guesses is nearly off", "openclaw config unset gateway.auth.rateLimit",
          "gateway.auth.rateLimit"),
    _rule("gateway.http_endpoints", "info", "programs can talk to the assistant over HTTP",
          "whoever has the token has every tool through it", "openclaw config unset gateway.http.endpoints"),
    _rule("gateway.probe_open", "critical", "the running gateway answers without a credential",
          "whoever reaches the port is the owner", "openclaw gateway restart"),
    # Webhooks.
    _rule("hooks.token_reuse_gateway_token", "critical", "webhooks use the token of the gateway",
          "whoever may wake the assistant may do everything", "openclaw config set hooks.token ANOTHER"),
    _rule("hooks.token_too_short", "warn", "the token of webhooks is short", "short secrets are guessed",
          "openclaw config set hooks.token LONGER"),
    _rule("hooks.request_session_key_enabled", "warn", "webhooks may choose the conversation they speak in",
          "text from outside lands in your own conversations", _SESSION_KEY[0], _SESSION_KEY[1]),
    _rule("hooks.session_key_prefixes_missing", "warn", "webhooks may name any conversation",
          "no prefix limits which", "openclaw config set hooks.allowedSessionKeyPrefixes '[\"hook:\"]'"),
    _rule("hooks.agents_unrestricted", "info", "webhooks may name any agent", "the one with the most tools is chosen",
          "openclaw config set hooks.allowedAgentIds '[\"main\"]'"),
    # Commands and files.
    _rule("tools.exec.security_full_configured", "critical", "the assistant may run every command without a question",
          "text from elsewhere that persuades the model has your account", "openclaw config unset tools.exec.security",
          "tools.exec.security", "tools.exec.ask"),
    _rule("tools.exec.inline_eval_lax", "warn", "code in arguments (python -c, find -exec) can be allowed for good",
          "an allowed interpreter runs anything", _INLINE[0], _INLINE[1]),
    _rule("tools.elevated.wildcard", "critical", "everybody on a channel may leave the sandbox",
          "a stranger's message runs commands on this machine", "openclaw config unset tools.elevated.allowFrom",
          "tools.elevated.allowFrom"),
    _rule("tools.elevated.default_on", "critical", "sessions may leave the sandbox before anybody said so",
          "the sandbox protects nothing", _ELEVATED[0], _ELEVATED[1]),
    _rule("tools.elevated.acknowledged", "warn", "leaving the sandbox by default is acknowledged",
          "nobody is asked each time any more", _ACKNOWLEDGED[0], _ACKNOWLEDGED[1]),
    _rule("tools.fs.reaches_everything", "info", "file tools reach beyond the workspace", "they can read your home",
          "openclaw config set tools.fs.workspaceOnly true"),
    _rule("tools.web.private_network", "critical", "pages can make the assistant fetch from private addresses",
          "a page reaches your router, your servers and cloud metadata", _FETCH[0], _FETCH[1]),
    _rule("browser.private_network", "critical", "the browser may open private addresses",
          "a page reaches your router, your servers and cloud metadata", _BROWSER[0], _BROWSER[1]),
    _rule("browser.no_sandbox", "warn", "the browser runs without its own sandbox",
          "a page that breaks the browser has your account", "openclaw config unset browser.noSandbox",
          "browser.noSandbox"),
    _rule("tools.sessions.all_visible", "warn", "every conversation can read every other one",
          "what one person said is told to another", "openclaw config unset tools.sessions.visibility",
          "tools.sessions.visibility"),
    _rule("tools.loop_detection_off", "info", "a run that goes round in circles is not stopped", "it costs money",
          "openclaw config unset tools.loopDetection", "tools.loopDetection"),
    _rule("approvals.allows_everything", "critical", "the allowlist allows every program",
          "the question before a command is never asked", "openclaw approvals list"),
    _rule("approvals.allows_interpreters", "warn", "the allowlist allows an interpreter whatever its arguments",
          "an interpreter runs any code", "openclaw approvals list"),
    # Text from elsewhere.
    _rule("security.taint_off", "critical", "labels of text from elsewhere are ignored",
          "a page or mail that gives orders is obeyed", _TAINT[0], _TAINT[1]),
    _rule("security.boundaries_off", "critical", "workspace files are not fenced in the prompt",
          "a file can pretend to be the system's instructions", _BOUNDS[0], _BOUNDS[1]),
    _rule("security.table_loosened", "warn", "the table of labels was loosened",
          "calls that would ask after text from elsewhere go on", "openclaw labels table"),
    _rule("security.trusted_paths_wide", "critical", "a directory with other people's files counts as your own words",
          "what others put there gives orders", "openclaw config unset security.externalContent.trustedPaths"),
    _rule("security.breaker_off", "warn", "nothing stops deleting or sending in bulk",
          "the first wrong turn is the last", "openclaw config unset security.breaker", "security.breaker"),
    _rule("security.undo_off", "info", "changes of files cannot be undone", "nothing is kept of the old versions",
          "openclaw config unset security.undo", "security.undo"),
    _rule("logging.redaction_off", "warn", "credentials are not blotted out of tool summaries", "logs are passed on",
          _REDACT[0], _REDACT[1]),
    # People.
    _rule("owner.display_raw", "warn", "ids of the owner are in every prompt as they are",
          "your phone number or account goes to the model's provider", _RAW[0], _RAW[1]),
    _rule("owner.unset", "info", "channels are on and nobody is named as the owner",
          "what only the owner may do, nobody may", "openclaw config set commands.ownerAllowFrom '[\"telegram:…\"]'"),
    _rule("commands.open", "critical", "everybody on a channel may use commands",
          "commands change models, sessions and settings", "openclaw config unset commands.allowFrom",
          "commands.allowFrom"),
    _rule("commands.config_from_chat", "warn", "the configuration can be changed from a chat",
          "whoever has your chat account has the configuration", "openclaw config unset commands.config",
          "commands.config"),
    _rule("channels.dm_open", "critical", "strangers are heard in direct messages",
          "anybody on that platform talks to your assistant, at your cost",
          "openclaw config set channels.NAME.dmPolicy pairing"),
    _rule("channels.group_open", "warn", "everybody in every group is heard", "strangers give orders",
          "openclaw config set channels.NAME.groupPolicy allowlist"),
    _rule("security.exposure.strangers_with_exec", "critical",
          "strangers are heard, and commands run without a question",
          "a message from anybody runs a command", "openclaw config unset tools.exec.security",
          "tools.exec.security", "tools.exec.ask"),
    _rule("sandbox.off_with_strangers", "warn", "others are heard, and nothing works in a sandbox",
          "what they talk it into happens on this machine",
          "openclaw config set agents.defaults.sandbox.mode non-main"),
    # Sandboxes.
    _rule("sandbox.network", "info", "sandboxes have a network", "what is read inside can be sent out",
          "openclaw config unset agents.defaults.sandbox.docker.network"),
    _rule("sandbox.writable_mount", "warn", "a directory of this machine is writable inside a sandbox",
          "what runs inside changes files outside", "openclaw config unset agents.defaults.sandbox.docker.binds"),
    _rule("sandbox.limits_lifted", "warn", "sandboxes have no limit of memory, processes or file size",
          "one command takes the machine down", "openclaw config unset agents.defaults.sandbox.docker"),
    # What others wrote.
    _rule("plugins.no_allowlist", "warn", "any plugin that is found may run",
          "a plugin runs as you, and reads your files", "openclaw config set plugins.allow '[\"NAME\"]'"),
    _rule("plugins.in_process", "critical", "a plugin runs inside the gateway",
          "it has every credential and every tool",
          "openclaw config unset plugins.entries.NAME.isolation"),
    _rule("plugins.prompt_replace", "warn", "a plugin may replace the system prompt", "it decides who the assistant is",
          "openclaw config unset plugins.entries.NAME.hooks.allowPromptReplace"),
    _rule("plugins.model_override", "warn", "a plugin may choose another model", "a weaker one obeys more easily",
          "openclaw config unset plugins.entries.NAME.hooks.allowModelOverride"),
    _rule("plugins.reads_conversations", "info", "a plugin may see what is said", "it is somebody else's program",
          "openclaw config unset plugins.entries.NAME.hooks.allowConversationAccess"),
    _rule("skills.trust_off", "critical", "every skill that is found is used", "a checkout can bring its own orders",
          _TRUST[0], _TRUST[1]),
    _rule("skills.verify_off", "critical", "changed skills are used as if nothing had happened",
          "what you accepted is not what runs", _VERIFY[0], _VERIFY[1]),
    _rule("skills.permissions_off", "warn", "skills may use tools they did not declare", "nobody is told",
          "openclaw config unset skills.permissions", "skills.permissions"),
    _rule("mcp.certificate_unchecked", "critical", "an MCP server's certificate is not checked",
          "somebody in between answers in its place", "openclaw config unset mcp.servers.NAME.sslVerify"),
    _rule("mcp.plain_http", "warn", "an MCP server is asked without encryption",
          "tokens and data can be read on the way",
          "openclaw config set mcp.servers.NAME.url https://…"),
    _rule("models.plain_http", "critical", "a model is asked without encryption", "the key and every word can be read",
          "openclaw config set models.providers.NAME.baseUrl https://…"),
    _rule("models.weak_tier", "warn", "a small model has commands, files and messages",
          "small models follow orders in what they read more often", "openclaw config set models.minTier standard"),
    # Prompts.
    _rule("heartbeat.prompt_suspicious", "critical", "the heartbeat text looks like an attack",
          "it is followed every half hour, by itself", "openclaw config unset agents.defaults.heartbeat.prompt",
          "agents.defaults.heartbeat.prompt"),
    _rule("heartbeat.prompt_long", "warn", "the heartbeat text is very long", "nobody reads it again",
          "openclaw config unset agents.defaults.heartbeat.prompt"),
    _rule("workspace.untrusted", "warn", "a workspace may hold somebody else's words",
          "its files are treated as data until you say they are yours", "openclaw workspace status"),
    _rule("workspace.suspicious", "warn", "a workspace file has text that looks like an attack",
          "it is in every prompt", "openclaw prompt report"),
    _rule("workspace.credentials", "warn", "a workspace file that is in every prompt holds a credential",
          "it goes to the model's provider with every message", "openclaw workspace status"),
    # Records.
    _rule("audit.chain_broken", "critical", "the record of changes was altered", "somebody hid what was changed",
          "openclaw audit verify"),
    _rule("config.changed_elsewhere", "info", "the configuration was last changed outside of our commands",
          "make sure that it was you", "openclaw config log"),
    _rule("summary.attack_surface", "info", "who can reach this assistant", "a look at the whole", "openclaw status"),
)  # fmt: skip

RULES = {rule.id: rule for rule in CATALOG}
