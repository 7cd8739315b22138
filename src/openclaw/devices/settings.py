"""Settings of `gateway`: where it listens, who may connect, and what it offers on its port."""

from typing import Annotated, Literal

from openclaw.core.settings import Count, Millis, SecretInput, Settings, doc

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
