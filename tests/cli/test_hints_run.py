"""Every hint is typed as it is printed, at a terminal, in a home where what it speaks of is there."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from openclaw.gateway.running import stop
from tests.channels.telegram.server import TOKEN
from tests.cli.hint_world import KEY, Place, Typist, World, world
from tests.cli.hints import Hint, expand, hints

ASIDE = re.compile(
    r"(.*\| )?openclaw($| </dev/null| config| security audit --fix| doctor --fix| setup| onboard| exec-policy"
    r"| completion"
    r"| models (auth|add|set|login)| gateway($| (run|start|stop|restart|install|uninstall))| daemon (?!status)"
    r"| channels (X|add|login|logout|remove|CHANNEL))"
)
"""What changes settings, or starts and stops the gateway."""

EXAMPLES = (
    (r"'{command: \"npx\".*}'", "'{shop}'"),
    (r"\b(RUN|66e7ef31)\b", "{run}"),
    (r"\bJOB\b", "mail"),
    (r"cron (\w+) X\b", r"cron \1 mail"),
    (r"\bCHANNEL\b", "telegram"),
    (r"\bNUMBER\b|(?<=release )12\b", "{number}"),
    (r"pairing (approve|remove) (mailbox|X)\b", r"pairing \1 telegram"),
    (r"(?<=approve telegram )(X|CODE|[0-9A-Z]{8})\b", "{code}"),
    (r"(?<=telegram )eve", "{guest}"),
    (r"(?<=resolve )(X|3f9c)\b", "{question}"),
    (r"8481456d", "git"),
    (r"\bHASH\b", "{hash}"),
    (r"\bREF\b", "mock/mock"),
    (r"\bADDRESS\b|http://192.168.1.20:8000/v1|http://host:port/v1", "{model}"),
    (r"(?<=show )3cdc", "{session}"),
    (r"\bREQUEST\b|(?<=requestId\":\")X", "{request}"),
    (r"\bDEVICE\b", "{device}"),
    (r"(?<=--message-id )\d", "{message}"),
    (r"(?<=--targets )[AB]\b|email:ada@example.com", "telegram:7"),
    (r"(agents?.*--agent) X\b", r"\1 work"),
    (r"(?<=--agent )ID\b", "main"),
    (r"(?<=export )X\b|\bKEY\b", "main"),
    (r"\bTEXT\b", "hello"),
    (r"(skills deps) X\b", r"\1 ffmpeg"),
    (r"(?<=--run )ID\b", "brew"),
    (r"skills new NAME", "skills new another"),
    (r"skills (\w+) (X|NAME)\b", r"skills \1 thing"),
    (r"skills\.entries\.X", "skills.entries.thing"),
    (r"skills install FILE", "skills install ./thing.tgz"),
    (r"plugins (\w+) (X|NAME)\b", r"plugins \1 dice"),
    (r"plugins install DIRECTORY", "plugins install ./dice"),
    (r"hooks (\w+) X\b", r"hooks \1 farewell"),
    (r"mcp (\w+) (X|NAME)\b", r"mcp \1 files"),
    (r"\bTOOL\b", "add"),
    (r"models auth X\b", "models auth openai"),
    (r"models login X\b", "models login openrouter"),
    (r"(?<=key-file )FILE\b", "key.txt"),
    (r"workspace (\w+) (X|DIR)\b", r"workspace \1 ."),
    (r"channels X XX", "channels status telegram"),
    (r"(channels \w+ (--channel )?)XX?\b", r"\1telegram"),
    (r"config set X …", "config set skills.entries.thing.apiKey …"),
    (r"config set X\.enabled", "config set channels.telegram.enabled"),
    (r"config set PATH VALUE", "config set tools.profile coding"),
    (r"config unset X\b", "config unset commands.ownerAllowFrom"),
    (r"\b(LONGER|ANOTHER)\b", "0123456789abcdef0123456789abcdef"),
    (r"https://…", "https://example.com"),
    (r"channels\.NAME", "channels.telegram"),
    (r"(mcp\.servers|models\.providers|plugins\.entries)\.NAME", r"\1.mine"),
    (r"gateway call METHOD --params JSON", "gateway call health --params '{{}}'"),
    (r"\bPATTERN\b", "git"),
    (r"<file>", "new.json5"),
    (r"\bURL\b|wss?://(host|127\.0\.0\.1):187\d\d", "ws://127.0.0.1:{port}"),
    (r"127\.0\.0\.1:18789", "127.0.0.1:{port}"),
    (r"ssh host ", ""),
)
"""What stands for something of the person's own, by the words before it."""

ANSWERS = (
    (r"\[y/N\]: ?$|\[Y/n\]: ?$|\[y\]es, .*\[N\]o: ?$", "y\n"),
    (r"you> ?$", "\x04"),
    (r"Key for .*: ?$|Secret: ?$", f"{KEY}\n"),
    (r"Token: ?$", f"{TOKEN}\n"),
    (r"number, name, provider/model or address.*: ?$", "mock/mock\n"),
    (r"Which channel \[1\]: ?$", "1\n"),
    (r"(such as [^)]*\)|Phone number ID.*|xoxb-…\)): ?$", "\x03"),
    (r": ?$", "\n"),
)
"""What the person answers, by the question; Ctrl-C where only an account elsewhere would help."""

FOLLOWS = (
    (r"openclaw gateway( run.*)?$", r"info  gateway: ready in"),
    (r"openclaw .*logs.* --follow", r"info .*\n"),
    (r"openclaw models login .*--no-browser", r"Waiting for the browser"),
)
"""What goes on until Ctrl-C, and what it says by then."""


class Ending(NamedTuple):
    line: str
    code: int
    says: str
    why: str


ENDINGS = (
    Ending(r"gateway( run.*)?$|.*logs.* --follow", -2, "info ", "ends with Ctrl-C"),
    Ending("models login .*--no-browser", -2, "/auth\\?callback_url", "tests/models/test_login.py goes there"),
    Ending(
        "channels add (email|irc|matrix$|slack$|slack --account|whatsapp)",
        -2,
        r"such as|Phone number ID|xoxb",
        "needs an account at a server: tests/channels has one for each",
    ),
    Ending("channels add (discord|webhook|matrix|slack)", 1, "could not be reached|refused|not", "the same"),
    Ending("channels add telegram --account", 1, "the account default already", "the test has one bot"),
    Ending("channels add signal", 1, "signal-cli", "the same"),
    Ending("skills deps ffmpeg --run", 1, "brew is not installed", "a program of another system"),
    Ending("sandbox recreate", 1, "there is no box", "tests/security has boxes, where the machine can make them"),
    Ending("tui .*--tls-fingerprint", 1, "has no certificate", "tests/cli/tui/test_elsewhere.py has one with"),
    Ending("config unset", 1, "is not set", "it is said where the setting is set"),
    Ending("(gateway|daemon) (un)?install", 1, "neither systemd for users nor launchd", "no service manager in a test"),
    Ending("cluster ", 1, "Set store.url to a PostgreSQL server", "tests/gateway/cluster has one"),
    Ending("store migrate", 1, "STORE_URL is not set|the gateway runs", "tests/gateway/test_store.py has a server"),
    Ending("sandbox build$", 1, "docker|podman", "no engine for containers in a test"),
)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("hints")) as made:
        yield made


def fill(line: str, values: dict[str, str]) -> str:
    """The line with names that are there."""
    for pattern, name in EXAMPLES:
        line = re.sub(pattern, lambda found, name=name: found.expand(name).format_map(values), line)  # type: ignore[misc]
    return line


def lines() -> Iterator[tuple[Hint, str]]:
    """Every line once."""
    seen: set[str] = set()
    for hint in hints():
        for line in expand(hint.text):
            if line not in seen and line != "openclaw install":
                seen.add(line)
                yield hint, line


def test_every_hint_works_as_it_is_printed(here: World) -> None:
    wrong = []
    for hint, line in lines():
        typed = fill(line, {**here.values, **here.before(line)})
        place = here.aside if ASIDE.match(line) else here.live
        if place is here.aside:
            place.reset()
        code, said = types(place, typed, here)
        if code == 2 and hint.names and re.fullmatch(r"openclaw( [a-z-]+)+", line):  # only named, not to be typed
            code, said = types(place, f"{typed} --help", here)
        ending = next((each for each in ENDINGS if re.search(rf"openclaw {each.line}", typed)), None)
        if ending is not None and code != 0:
            fits = code == ending.code and re.search(ending.says, said) is not None
        else:
            fits = code == 0 or (code == 2 and "Error:" not in said and "Commands:" in said)
        if not fits:
            wrong.append(f"{hint.where}: {typed}\n    ended with {code}: {said[-600:]}")
    assert not wrong, "\n".join(wrong)


def types(place: Place, line: str, here: World) -> tuple[int, str]:
    """Types a line and answers its questions; gives the exit code and all that was shown."""
    person = Typist(line, place.environ, place.here)
    if re.search(r"openclaw (acp|mcp serve)|--(password|signing-secret) -", line):
        person.types(f"{KEY if '--' in line else ''}\n\x04")
    follows = [(until, "\x03") for pattern, until in FOLLOWS if re.search(pattern, line)]
    code = person.answers([*follows, *ANSWERS])
    if place is here.aside:
        stop(place.home.state, 10.0)
    return code, person.seen
