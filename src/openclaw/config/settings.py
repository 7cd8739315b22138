"""Settings of `env`, `secrets`, `logging`, `diagnostics`, `meta`, `wizard` and `gateway`."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from openclaw.core.secret import Secret
from openclaw.core.settings import Count, Millis, SecretInput, Settings

LogLevel = Literal["silent", "fatal", "error", "warn", "info", "debug", "trace"]
Alias = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_-]{0,63}$")]


class ShellEnvSettings(Settings, frozen=True):
    """`env.shellEnv`: variables from the login shell."""

    enabled: bool = False
    """ask the login shell for variables that are used here but not set"""
    timeout_ms: Millis = 15_000
    """longest wait for the shell"""


class EnvSettings(Settings, frozen=True):
    """`env`: variables for ${NAME} and for programs we start; a variable that is already set wins."""

    vars: Mapping[str, Secret] = field(default_factory=dict)
    """variables by name, used when the environment has none"""
    shell_env: ShellEnvSettings = ShellEnvSettings()
    """variables from the login shell"""


class EnvProvider(Settings, frozen=True, tag_field="source", tag="env"):
    """Secrets from environment variables."""

    allowlist: tuple[str, ...] | None = None
    """the only variables that may be read; all when absent"""


class FileProvider(Settings, frozen=True, tag_field="source", tag="file"):
    """Secrets from a private file."""

    path: Annotated[str, Meta(min_length=1)]
    """the file: absolute, or starting with ~"""
    mode: Literal["json", "singleValue"] = "json"
    """a JSON object read by pointer, or the whole file as one value"""
    max_bytes: Count = 1 << 20
    """largest file that is read"""


class ExecProvider(Settings, frozen=True, tag_field="source", tag="exec"):
    """Secrets from a program, asked over its standard input."""

    command: Annotated[str, Meta(min_length=1)]
    """the program: an absolute path, not a symbolic link"""
    args: tuple[str, ...] = ()
    """its arguments"""
    env: Mapping[str, Secret] = field(default_factory=dict)
    """variables it gets"""
    pass_env: tuple[str, ...] = ()
    """variables of ours that it gets as well"""
    trusted_dirs: tuple[str, ...] = ()
    """directories the program must be in; any when empty"""
    timeout_ms: Count = 5_000
    """longest wait for its answer"""
    no_output_timeout_ms: Count | None = None
    """longest silence; the whole time when absent"""
    max_output_bytes: Count = 1 << 20
    """longest answer"""
    json_only: bool = True
    """the answer must be JSON; otherwise bare text is taken as the one value"""


class SecretDefaults(Settings, frozen=True):
    """`secrets.defaults`: which provider `default` means, by source."""

    env: Alias | None = None
    """provider for source env"""
    file: Alias | None = None
    """provider for source file"""
    exec: Alias | None = None
    """provider for source exec"""
    store: Alias | None = None
    """provider for source store"""


class SecretsSettings(Settings, frozen=True):
    """`secrets`: where credentials are kept."""

    providers: Mapping[Alias, EnvProvider | FileProvider | ExecProvider] = field(default_factory=dict)
    """providers by alias"""
    defaults: SecretDefaults = SecretDefaults()
    """the provider meant by default, for each source"""


class LoggingSettings(Settings, frozen=True):
    """`logging`: what is written down, and where."""

    level: LogLevel = "info"
    """least important message that is written to the file"""
    file: str | None = None
    """path of the log file"""
    console_level: LogLevel | None = None
    """least important message on the console; like level when absent"""
    console_style: Literal["pretty", "compact", "json"] = "pretty"
    """how console lines look"""
    redact_sensitive: Literal["off", "tools"] = "tools"
    """blot out what looks like a credential in tool summaries, or nothing"""


class DiagnosticsSettings(Settings, frozen=True):
    """`diagnostics`: what the gateway watches in itself."""

    enabled: bool = True
    """look after sessions that do not get on"""
    stuck_session_warn_ms: Count | None = None
    """report a run without progress after this; 120000 if absent"""
    stuck_session_abort_ms: Count | None = None
    """end a run without progress after this; three times the warning, at least 300000, if absent"""


class StateStoreSettings(Settings, frozen=True):
    """`store`: the database. Without an address it is a file in the state directory."""

    url: SecretInput | None = None
    """a PostgreSQL server for several gateways: postgresql://user:password@host:5432/database"""
    pool: Annotated[int, Meta(ge=2)] = 10
    """the most connections this gateway makes to that server"""


class MetaSettings(Settings, frozen=True):
    """`meta`: notes of the program that last wrote the file."""

    last_touched_version: str | None = None
    """version of that program"""
    last_touched_at: str | None = None
    """when it wrote"""
    migrations: Mapping[str, Any] = field(default_factory=dict)
    """changes of format already made"""


class WizardSettings(Settings, frozen=True):
    """`wizard`: notes of the guided set-up."""

    access_mode: Literal["full", "guarded"] | None = None
    """how much access was chosen"""
    app_recommendations: bool | None = None
    """whether recommendations were wanted"""
    last_run_at: str | None = None
    """when it last ran"""
    last_run_version: str | None = None
    """version that ran it"""
    last_run_commit: str | None = None
    """build that ran it"""
    last_run_command: str | None = None
    """command that ran it"""
    last_run_mode: Literal["local", "remote"] | None = None
    """where the gateway was to run"""
    security_acknowledged_at: str | None = None
    """when the security notice was accepted"""


Bind = Literal["loopback", "lan", "auto", "custom"]
AuthMode = Literal["token", "password", "none", "trusted-proxy"]
ReloadMode = Literal["hybrid", "hot", "restart", "off"]


class RateLimitSettings(Settings, frozen=True):
    """`gateway.auth.rateLimit`: guessing a credential gets slow."""

    max_attempts: Count = 10
    """failures within the window before an address is locked out"""
    window_ms: Millis = 60_000
    """how long a failure counts"""
    lockout_ms: Millis = 300_000
    """how long an address is locked out"""
    exempt_loopback: bool = False
    """do not count failures from this machine; counted unless set, unlike OpenClaw"""


class DeviceAutoApproveSettings(Settings, frozen=True):
    """`gateway.auth.trustedProxy.deviceAutoApprove`: devices of people the proxy knows."""

    enabled: bool = False
    """pair a new device without asking, up to these scopes"""
    scopes: tuple[str, ...] = ()
    """what such a device may be given, such as operator.read"""


class TrustedProxySettings(Settings, frozen=True):
    """`gateway.auth.trustedProxy`: a proxy in front that asks people who they are (its addresses: trustedProxies)."""

    user_header: str = ""
    """the header in which the proxy names the person, such as x-forwarded-user"""
    required_headers: tuple[str, ...] = ()
    """headers that must be there too"""
    allow_users: tuple[str, ...] = ()
    """who may come in; everyone the proxy knows when empty"""
    allow_loopback: bool = False
    """the proxy runs on this machine"""
    device_auto_approve: DeviceAutoApproveSettings = DeviceAutoApproveSettings()
    """devices of people the proxy knows"""


class GatewayAuthSettings(Settings, frozen=True):
    """`gateway.auth`: what a client has to know."""

    mode: AuthMode | None = None
    """token, password, none, or trusted-proxy (see trustedProxy); when absent: whichever is set, else a token made
    at the first start"""
    token: SecretInput | None = None
    """the shared token"""
    password: SecretInput | None = None
    """the shared password"""
    trusted_proxy: TrustedProxySettings = TrustedProxySettings()
    """a proxy in front that asks people who they are"""
    rate_limit: RateLimitSettings = RateLimitSettings()
    """how fast credentials may be tried"""


class ControlUiSettings(Settings, frozen=True):
    """`gateway.controlUi`: the web pages."""

    enabled: bool = True
    """serve the web pages"""
    base_path: str = ""
    """path they are served under; the root when empty"""
    allowed_origins: tuple[str, ...] = ()
    """other web origins whose pages may connect, such as https://chat.example.org; their hosts are served too"""


class ReloadSettings(Settings, frozen=True):
    """`gateway.reload`: what happens when the configuration file changes."""

    mode: ReloadMode = "hybrid"
    """hybrid applies changes and restarts when one needs it, hot never restarts by itself, restart always
    restarts, off ignores changes until the next start"""
    debounce_ms: Millis = 300
    """how long the file must be quiet before it is read"""


class TlsSettings(Settings, frozen=True):
    """`gateway.tls`: encryption on the gateway's port; needed when it is reached over a network without a proxy."""

    enabled: bool = False
    """speak https and wss, and nothing else"""
    auto_generate: bool = True
    """make a certificate for this machine when no files are named; browsers warn of it once"""
    cert_path: str | None = None
    """PEM file with the certificate, and those that lead to its authority"""
    key_path: str | None = None
    """PEM file with its private key, without a password"""


class EndpointSettings(Settings, frozen=True):
    """One HTTP interface."""

    enabled: bool = False
    """answer on this interface"""


class HttpEndpointsSettings(Settings, frozen=True):
    """`gateway.http.endpoints`: interfaces for programs made for other assistants."""

    chat_completions: EndpointSettings = EndpointSettings()
    """/v1/chat/completions, /v1/models, /v1/embeddings"""
    responses: EndpointSettings = EndpointSettings()
    """/v1/responses"""


class GatewayHttpSettings(Settings, frozen=True):
    """`gateway.http`: HTTP beside the protocol of our own clients."""

    endpoints: HttpEndpointsSettings = HttpEndpointsSettings()
    """interfaces that can be switched on"""


class ConnectionLimitSettings(Settings, frozen=True):
    """`gateway.limits`: how many connections there may be, and how long they may keep the gateway waiting."""

    connections: Count = 2_048
    """most connections at once; fewer where the system allows the process fewer open files"""
    per_address: Count = 64
    """most connections of one address, except this machine and trusted proxies"""
    pending: Count = 256
    """most connections that have not sent a whole request; beyond, the oldest is closed"""
    header_seconds: Annotated[float, Meta(gt=0)] = 10
    """longest wait for the header of a request"""
    body_seconds: Annotated[float, Meta(gt=0)] = 30
    """longest wait for its body, besides a second for every 4 KB that came"""


class GatewaySettings(Settings, frozen=True):
    """`gateway`: the long-lived process that every client talks to."""

    port: Annotated[int, Meta(ge=1, le=65_535)] = 18_789
    """port for HTTP and WebSocket"""
    mode: Literal["local", "remote"] | None = None
    """whether the gateway runs on this machine"""
    bind: Bind = "loopback"
    """loopback and auto: this machine only; lan: every network; custom: the address in customBindHost"""
    custom_bind_host: str | None = None
    """the IPv4 address to listen on when bind is custom"""
    auth: GatewayAuthSettings = GatewayAuthSettings()
    """what a client has to know"""
    trusted_proxies: tuple[str, ...] = ()
    """addresses of proxies whose X-Forwarded-For is believed"""
    tls: TlsSettings = TlsSettings()
    """encryption on the port"""
    control_ui: ControlUiSettings = ControlUiSettings()
    """the web pages"""
    reload: ReloadSettings = ReloadSettings()
    """what happens when the configuration file changes"""
    http: GatewayHttpSettings = GatewayHttpSettings()
    """HTTP beside the protocol of our own clients"""
    limits: ConnectionLimitSettings = ConnectionLimitSettings()
    """how many connections, and how slow they may be"""
