"""Fetches credentials from where they are kept: a variable, a private file, or a program."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from openclaw.config import tree
from openclaw.config.check import ConfigProblem
from openclaw.config.files import NotRegular, open_regular
from openclaw.config.settings import EnvProvider, ExecProvider, FileProvider, SecretsSettings
from openclaw.core.secret import Secret
from openclaw.core.settings import SecretRef

PROTOCOL = 1


class SecretUnavailable(Exception):
    """A credential cannot be fetched; the message says why and never contains it."""


def resolve(
    refs: Mapping[tree.Path, SecretRef], settings: SecretsSettings, variables: Mapping[str, str]
) -> tuple[dict[tree.Path, Secret], tuple[ConfigProblem, ...]]:
    """Fetches the credentials for `refs`, by path; each program is asked once for all of its ids."""
    found: dict[tree.Path, Secret] = {}
    problems: list[ConfigProblem] = []
    by_provider: dict[tuple[str, str], list[tree.Path]] = {}
    for path, ref in refs.items():
        usual = getattr(settings.defaults, ref.source) or "default"
        alias = usual if ref.provider == "default" else ref.provider
        by_provider.setdefault((ref.source, alias), []).append(path)
    for (source, alias), paths in by_provider.items():
        try:
            values = _fetch(source, alias, [refs[path].id for path in paths], settings, variables)
        except SecretUnavailable as error:
            values = dict.fromkeys((refs[path].id for path in paths), error)
        for path in paths:
            value = values[refs[path].id]
            if isinstance(value, Secret):
                found[path] = value
            else:
                problems.append(ConfigProblem(tree.format_path(path), f"the credential is not available: {value}"))
    return found, tuple(problems)


def _fetch(
    source: str, alias: str, ids: list[str], settings: SecretsSettings, variables: Mapping[str, str]
) -> dict[str, Secret | SecretUnavailable]:
    if source == "store":
        raise SecretUnavailable("secrets from the store are not available yet; use source env, file or exec")
    provider = settings.providers.get(alias)
    if provider is None and source == "env" and alias == "default":
        provider = EnvProvider()
    match source, provider:
        case _, None:
            raise SecretUnavailable(f"there is no secret provider {alias}: add secrets.providers.{alias}")
        case "env", EnvProvider():
            return {name: _from_env(name, provider, variables) for name in ids}
        case "file", FileProvider():
            return _from_file(ids, provider)
        case "exec", ExecProvider():
            return _from_program(alias, ids, provider, variables)
    raise SecretUnavailable(f"secrets.providers.{alias} is not a provider for source {source}")


def _from_env(name: str, provider: EnvProvider, variables: Mapping[str, str]) -> Secret | SecretUnavailable:
    if provider.allowlist is not None and name not in provider.allowlist:
        return SecretUnavailable(f"{name} is not on the provider's allowlist")
    value = variables.get(name, "").strip()
    return Secret(value) if value else SecretUnavailable(f"the variable {name} is not set")


def _from_file(ids: list[str], provider: FileProvider) -> dict[str, Secret | SecretUnavailable]:
    text = _read_private(Path(provider.path).expanduser(), provider.max_bytes)
    if provider.mode == "singleValue":
        whole = Secret(text.strip())
        other = SecretUnavailable("the file is one value: use the id value")
        return {name: whole if name == "value" and whole else other for name in ids}
    try:
        data = msgspec.json.decode(text)
    except msgspec.DecodeError:
        raise SecretUnavailable(f"{provider.path} is not JSON") from None
    return {name: _as_secret(_point(data, name), f"{provider.path} has no text at {name}") for name in ids}


def _read_private(path: Path, limit: int) -> str:
    if not path.is_absolute():
        raise SecretUnavailable(f"{path} must be an absolute path")
    try:
        with open_regular(path, follow=False) as (file, facts):
            if facts.st_nlink != 1:
                raise NotRegular
            if os.name != "nt" and (facts.st_mode & 0o077 or facts.st_uid not in (0, os.geteuid())):
                raise SecretUnavailable(f"{path} can be read by others: chmod 600 it")
            data = file.read(limit + 1)
    except NotRegular:
        raise SecretUnavailable(f"{path} must be a regular file with a single link") from None
    except OSError as error:
        raise SecretUnavailable(f"cannot read {path}: {error.strerror}") from None
    if len(data) > limit:
        raise SecretUnavailable(f"{path} is larger than {limit} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise SecretUnavailable(f"{path} is not UTF-8 text") from None


def _point(data: Any, pointer: str) -> Any:
    """The value at a JSON pointer (RFC 6901), or None."""
    if not pointer.startswith("/"):
        return None
    for part in pointer[1:].split("/"):
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(data, list) and part.isdecimal() and int(part) < len(data):
            data = data[int(part)]
        else:
            data = data.get(part) if isinstance(data, dict) else None
    return data


def _as_secret(value: Any, otherwise: str) -> Secret | SecretUnavailable:
    return Secret(value.strip()) if isinstance(value, str) and value.strip() else SecretUnavailable(otherwise)


def _from_program(
    alias: str, ids: list[str], provider: ExecProvider, variables: Mapping[str, str]
) -> dict[str, Secret | SecretUnavailable]:
    command = _trusted_program(provider)
    env = {name: variables[name] for name in provider.pass_env if name in variables}
    env |= {name: value.reveal() for name, value in provider.env.items()}
    question = msgspec.json.encode({"protocolVersion": PROTOCOL, "provider": alias, "ids": sorted(set(ids))})
    answer = _ask([str(command), *provider.args], question, env, provider)
    try:
        reply = msgspec.json.decode(answer)
    except (msgspec.DecodeError, UnicodeDecodeError):
        if provider.json_only or len(set(ids)) != 1:
            raise SecretUnavailable(f"{command} did not answer with JSON") from None
        text = answer.decode("utf-8", "replace")
        return {ids[0]: _as_secret(text, f"{command} answered nothing")}
    if not isinstance(reply, dict) or reply.get("protocolVersion") != PROTOCOL:
        raise SecretUnavailable(f"{command} does not speak protocol version {PROTOCOL}")
    values, errors = reply.get("values"), reply.get("errors")
    values = values if isinstance(values, dict) else {}
    errors = errors if isinstance(errors, dict) else {}
    return {name: _as_secret(values.get(name), _refusal(command, name, errors.get(name))) for name in ids}


def _refusal(command: Path, name: str, error: Any) -> str:
    code = error.get("code") if isinstance(error, dict) else None
    told = f" ({code})" if isinstance(code, str) and len(code) <= 40 and code.isprintable() else ""
    return f"{command} has no value for {name}{told}"


def _trusted_program(provider: ExecProvider) -> Path:
    command = Path(provider.command).expanduser()
    if not command.is_absolute() or command.is_symlink() or not command.is_file():
        raise SecretUnavailable(f"{provider.command} must be the absolute path of a program, not a symbolic link")
    dirs = [Path(trusted).expanduser().resolve() for trusted in provider.trusted_dirs]
    if dirs and not any(command.resolve().is_relative_to(trusted) for trusted in dirs):
        raise SecretUnavailable(f"{command} is not in one of the provider's trustedDirs")
    return command


def _ask(argv: list[str], question: bytes, env: dict[str, str], provider: ExecProvider) -> bytes:
    """The program's answer. Its standard error is dropped: it might repeat the credential."""
    from openclaw.process.child import ask_program_blocking  # brings asyncio, and few homes have such a provider

    silence = provider.no_output_timeout_ms
    try:
        said = ask_program_blocking(
            argv,
            question,
            env=env,
            seconds=provider.timeout_ms / 1000,
            silence=silence / 1000 if silence else None,
            most=provider.max_output_bytes,
        )
    except OSError as error:
        raise SecretUnavailable(f"cannot start {argv[0]}: {error.strerror}") from None
    if said.why == "flooded":
        raise SecretUnavailable(f"{argv[0]} answered more than {provider.max_output_bytes} bytes")
    if said.why:
        raise SecretUnavailable(f"{argv[0]} did not answer within {provider.timeout_ms} ms")
    if said.code != 0:
        raise SecretUnavailable(f"{argv[0]} failed with exit code {said.code}")
    return said.out
