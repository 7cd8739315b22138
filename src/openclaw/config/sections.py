"""Settings that belong to no other room: environment, secrets, logging, and the program's own notes."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from openclaw.core.secret import Secret
from openclaw.core.settings import Count, Millis, Settings, doc

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
