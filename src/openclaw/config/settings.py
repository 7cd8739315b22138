"""Settings of `env`, `secrets`, `logging`, `diagnostics`, `meta`, `wizard` and `gateway`."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from openclaw.core.secret import Secret
from openclaw.core.settings import Count, Millis, SecretInput, Settings, doc

LogLevel = Literal["silent", "fatal", "error", "warn", "info", "debug", "trace"]
Alias = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_-]{0,63}$")]


class ShellEnvSettings(Settings, frozen=True):
    """`env.shellEnv`: variables from the login shell."""

    enabled: Annotated[bool, doc("ask the login shell for variables that are used here but not set")] = False
    timeout_ms: Annotated[Millis, doc("longest wait for the shell")] = 15_000


class EnvSettings(Settings, frozen=True):
    """`env`: variables for ${NAME} and for programs we start; a variable that is already set wins."""

    vars: Annotated[Mapping[str, Secret], doc("variables by name, used when the environment has none")] = field(
        default_factory=dict
    )
    shell_env: Annotated[ShellEnvSettings, doc("variables from the login shell")] = ShellEnvSettings()


class EnvProvider(Settings, frozen=True, tag_field="source", tag="env"):
    """Secrets from environment variables."""

    allowlist: Annotated[tuple[str, ...] | None, doc("the only variables that may be read; all when absent")] = None


class FileProvider(Settings, frozen=True, tag_field="source", tag="file"):
    """Secrets from a private file."""

    path: Annotated[str, doc("the file: absolute, or starting with ~", min_length=1)]
    mode: Annotated[
        Literal["json", "singleValue"], doc("a JSON object read by pointer, or the whole file as one value")
    ] = "json"
    max_bytes: Annotated[Count, doc("largest file that is read")] = 1 << 20


class ExecProvider(Settings, frozen=True, tag_field="source", tag="exec"):
    """Secrets from a program, asked over its standard input."""

    command: Annotated[str, doc("the program: an absolute path, not a symbolic link", min_length=1)]
    args: Annotated[tuple[str, ...], doc("its arguments")] = ()
    env: Annotated[Mapping[str, Secret], doc("variables it gets")] = field(default_factory=dict)
    pass_env: Annotated[tuple[str, ...], doc("variables of ours that it gets as well")] = ()
    trusted_dirs: Annotated[tuple[str, ...], doc("directories the program must be in; any when empty")] = ()
    timeout_ms: Annotated[Count, doc("longest wait for its answer")] = 5_000
    no_output_timeout_ms: Annotated[Count | None, doc("longest silence; the whole time when absent")] = None
    max_output_bytes: Annotated[Count, doc("longest answer")] = 1 << 20
    json_only: Annotated[bool, doc("the answer must be JSON; otherwise bare text is taken as the one value")] = True


class SecretDefaults(Settings, frozen=True):
    """`secrets.defaults`: which provider `default` means, by source."""

    env: Annotated[Alias | None, doc("provider for source env")] = None
    file: Annotated[Alias | None, doc("provider for source file")] = None
    exec: Annotated[Alias | None, doc("provider for source exec")] = None
    store: Annotated[Alias | None, doc("provider for source store")] = None


class SecretsSettings(Settings, frozen=True):
    """`secrets`: where credentials are kept."""

    providers: Annotated[Mapping[Alias, EnvProvider | FileProvider | ExecProvider], doc("providers by alias")] = field(
        default_factory=dict
    )
    defaults: Annotated[SecretDefaults, doc("the provider meant by default, for each source")] = SecretDefaults()


class LoggingSettings(Settings, frozen=True):
    """`logging`: what is written down, and where."""

    level: Annotated[LogLevel, doc("least important message that is written to the file")] = "info"
    file: Annotated[str | None, doc("path of the log file")] = None
    console_level: Annotated[LogLevel | None, doc("least important message on the console; like level when absent")] = (
        None
    )
    console_style: Annotated[Literal["pretty", "compact", "json"], doc("how console lines look")] = "pretty"
    redact_sensitive: Annotated[
        Literal["off", "tools"], doc("blot out what looks like a credential in tool summaries, or nothing")
    ] = "tools"


class DiagnosticsSettings(Settings, frozen=True):
    """`diagnostics`: what the gateway watches in itself."""

    enabled: Annotated[bool, doc("look after sessions that do not get on")] = True
    stuck_session_warn_ms: Annotated[
        Count | None, doc("report a run without progress after this; 120000 if absent")
    ] = None
    stuck_session_abort_ms: Annotated[
        Count | None, doc("end a run without progress after this; three times the warning, at least 300000, if absent")
    ] = None


class StateStoreSettings(Settings, frozen=True):
    """`store`: the database. Without an address it is a file in the state directory."""

    url: Annotated[
        SecretInput | None,
        doc("a PostgreSQL server for several gateways: postgresql://user:password@host:5432/database"),
    ] = None
    pool: Annotated[int, doc("the most connections this gateway makes to that server", ge=2)] = 10


class MetaSettings(Settings, frozen=True):
    """`meta`: notes of the program that last wrote the file."""

    last_touched_version: Annotated[str | None, doc("version of that program")] = None
    last_touched_at: Annotated[str | None, doc("when it wrote")] = None
    migrations: Annotated[Mapping[str, Any], doc("changes of format already made")] = field(default_factory=dict)


class WizardSettings(Settings, frozen=True):
    """`wizard`: notes of the guided set-up."""

    access_mode: Annotated[Literal["full", "guarded"] | None, doc("how much access was chosen")] = None
    app_recommendations: Annotated[bool | None, doc("whether recommendations were wanted")] = None
    last_run_at: Annotated[str | None, doc("when it last ran")] = None
    last_run_version: Annotated[str | None, doc("version that ran it")] = None
    last_run_commit: Annotated[str | None, doc("build that ran it")] = None
    last_run_command: Annotated[str | None, doc("command that ran it")] = None
    last_run_mode: Annotated[Literal["local", "remote"] | None, doc("where the gateway was to run")] = None
    security_acknowledged_at: Annotated[str | None, doc("when the security notice was accepted")] = None


Bind = Literal["loopback", "lan", "auto", "custom"]
AuthMode = Literal["token", "password", "none", "trusted-proxy"]
ReloadMode = Literal["hybrid", "hot", "restart", "off"]


class RateLimitSettings(Settings, frozen=True):
    """`gateway.auth.rateLimit`: guessing a credential gets slow."""

    max_attempts: Annotated[Count, doc("failures within the window before an address is locked out")] = 10
    window_ms: Annotated[Millis, doc("how long a failure counts")] = 60_000
    lockout_ms: Annotated[Millis, doc("how long an address is locked out")] = 300_000
    exempt_loopback: Annotated[
        bool, doc("do not count failures from this machine; counted unless set, unlike OpenClaw")
    ] = False


class DeviceAutoApproveSettings(Settings, frozen=True):
    """`gateway.auth.trustedProxy.deviceAutoApprove`: devices of people the proxy knows."""

    enabled: Annotated[bool, doc("pair a new device without asking, up to these scopes")] = False
    scopes: Annotated[tuple[str, ...], doc("what such a device may be given, such as operator.read")] = ()


class TrustedProxySettings(Settings, frozen=True):
    """`gateway.auth.trustedProxy`: a proxy in front that asks people who they are (its addresses: trustedProxies)."""

    user_header: Annotated[str, doc("the header in which the proxy names the person, such as x-forwarded-user")] = ""
    required_headers: Annotated[tuple[str, ...], doc("headers that must be there too")] = ()
    allow_users: Annotated[tuple[str, ...], doc("who may come in; everyone the proxy knows when empty")] = ()
    allow_loopback: Annotated[bool, doc("the proxy runs on this machine")] = False
    device_auto_approve: Annotated[DeviceAutoApproveSettings, doc("devices of people the proxy knows")] = (
        DeviceAutoApproveSettings()
    )


class GatewayAuthSettings(Settings, frozen=True):
    """`gateway.auth`: what a client has to know."""

    mode: Annotated[
        AuthMode | None,
        doc(
            "token, password, none, or trusted-proxy (see trustedProxy); when absent: whichever is set, else a token"
            " made at the first start"
        ),
    ] = None
    token: Annotated[SecretInput | None, doc("the shared token")] = None
    password: Annotated[SecretInput | None, doc("the shared password")] = None
    trusted_proxy: Annotated[TrustedProxySettings, doc("a proxy in front that asks people who they are")] = (
        TrustedProxySettings()
    )
    rate_limit: Annotated[RateLimitSettings, doc("how fast credentials may be tried")] = RateLimitSettings()


class ControlUiSettings(Settings, frozen=True):
    """`gateway.controlUi`: the web pages."""

    enabled: Annotated[bool, doc("serve the web pages")] = True
    base_path: Annotated[str, doc("path they are served under; the root when empty")] = ""
    allowed_origins: Annotated[
        tuple[str, ...],
        doc("other web origins whose pages may connect, such as https://chat.example.org; their hosts are served too"),
    ] = ()


class ReloadSettings(Settings, frozen=True):
    """`gateway.reload`: what happens when the configuration file changes."""

    mode: Annotated[
        ReloadMode,
        doc(
            "hybrid applies changes and restarts when one needs it, hot never restarts by itself,"
            " restart always restarts, off ignores changes until the next start"
        ),
    ] = "hybrid"
    debounce_ms: Annotated[Millis, doc("how long the file must be quiet before it is read")] = 300


class TlsSettings(Settings, frozen=True):
    """`gateway.tls`: encryption on the gateway's port; needed when it is reached over a network without a proxy."""

    enabled: Annotated[bool, doc("speak https and wss, and nothing else")] = False
    auto_generate: Annotated[
        bool, doc("make a certificate for this machine when no files are named; browsers warn of it once")
    ] = True
    cert_path: Annotated[str | None, doc("PEM file with the certificate, and those that lead to its authority")] = None
    key_path: Annotated[str | None, doc("PEM file with its private key, without a password")] = None


class EndpointSettings(Settings, frozen=True):
    """One HTTP interface."""

    enabled: Annotated[bool, doc("answer on this interface")] = False


class HttpEndpointsSettings(Settings, frozen=True):
    """`gateway.http.endpoints`: interfaces for programs made for other assistants."""

    chat_completions: Annotated[EndpointSettings, doc("/v1/chat/completions, /v1/models, /v1/embeddings")] = (
        EndpointSettings()
    )
    responses: Annotated[EndpointSettings, doc("/v1/responses")] = EndpointSettings()


class GatewayHttpSettings(Settings, frozen=True):
    """`gateway.http`: HTTP beside the protocol of our own clients."""

    endpoints: Annotated[HttpEndpointsSettings, doc("interfaces that can be switched on")] = HttpEndpointsSettings()


class ConnectionLimitSettings(Settings, frozen=True):
    """`gateway.limits`: how many connections there may be, and how long they may keep the gateway waiting."""

    connections: Annotated[
        Count, doc("most connections at once; fewer where the system allows the process fewer open files")
    ] = 2_048
    per_address: Annotated[Count, doc("most connections of one address, except this machine and trusted proxies")] = 64
    pending: Annotated[
        Count, doc("most connections that have not sent a whole request; beyond, the oldest is closed")
    ] = 256
    header_seconds: Annotated[float, doc("longest wait for the header of a request", gt=0)] = 10
    body_seconds: Annotated[
        float, doc("longest wait for its body, besides a second for every 4 KB that came", gt=0)
    ] = 30


class GatewaySettings(Settings, frozen=True):
    """`gateway`: the long-lived process that every client talks to."""

    port: Annotated[int, doc("port for HTTP and WebSocket", ge=1, le=65_535)] = 18_789
    mode: Annotated[Literal["local", "remote"] | None, doc("whether the gateway runs on this machine")] = None
    bind: Annotated[
        Bind,
        doc("loopback and auto: this machine only; lan: every network; custom: the address in customBindHost"),
    ] = "loopback"
    custom_bind_host: Annotated[str | None, doc("the IPv4 address to listen on when bind is custom")] = None
    auth: Annotated[GatewayAuthSettings, doc("what a client has to know")] = GatewayAuthSettings()
    trusted_proxies: Annotated[tuple[str, ...], doc("addresses of proxies whose X-Forwarded-For is believed")] = ()
    tls: Annotated[TlsSettings, doc("encryption on the port")] = TlsSettings()
    control_ui: Annotated[ControlUiSettings, doc("the web pages")] = ControlUiSettings()
    reload: Annotated[ReloadSettings, doc("what happens when the configuration file changes")] = ReloadSettings()
    http: Annotated[GatewayHttpSettings, doc("HTTP beside the protocol of our own clients")] = GatewayHttpSettings()
    limits: Annotated[ConnectionLimitSettings, doc("how many connections, and how slow they may be")] = (
        ConnectionLimitSettings()
    )
