"""File patterns as people write them: `*.py`, `src/**/*.{ts,tsx}`, `!*.md`. No I/O."""

import re

import pathspec

from openclaw.core.errors import InvalidRequest

MAX_ALTERNATIVES = 200

_BRACES = re.compile(r"\{([^{}]*)\}")


class Glob:
    """Tells whether a path matches; a pattern without a slash matches names at any depth."""

    def __init__(self, pattern: str) -> None:
        cleaned = pattern.strip()
        self.negated = cleaned.startswith("!")
        body = cleaned.removeprefix("!").removeprefix("./")
        if not body:
            raise InvalidRequest("The file pattern is empty: give one such as *.py or src/**/*.ts.")
        try:
            self._spec = pathspec.GitIgnoreSpec.from_lines(_plain(one) for one in expand(body))
        except (ValueError, re.error) as error:
            raise InvalidRequest(f"{pattern!r} is not a file pattern: {error}") from error
        self.name = body.rpartition("/")[2]
        """The part that file names must match, for narrowing a search early."""
        self.anchored = "/" in body

    def matches(self, path: str) -> bool:
        return self._spec.match_file(path) != self.negated


def _plain(pattern: str) -> str:
    """`pattern` as an ignore rule: a leading ! or # is a character here, not a rule."""
    return f"\\{pattern}" if pattern[:1] in ("!", "#") else pattern


def expand(pattern: str) -> list[str]:
    """`a.{b,c}` as `a.b` and `a.c`, also nested."""
    done: list[str] = []
    queue = [pattern]
    while queue:
        current = queue.pop(0)
        braces = _BRACES.search(current)
        if braces is None:
            done.append(current)
        else:
            queue += [current[: braces.start()] + part + current[braces.end() :] for part in braces[1].split(",")]
        if len(done) + len(queue) > MAX_ALTERNATIVES:
            raise InvalidRequest(f"{pattern!r} has too many alternatives: use a simpler pattern.")
    return done
