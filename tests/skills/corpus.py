# ruff: noqa: E501
"""Sixty SKILL.md files as people really write them: what must be understood of each, or why it cannot be used."""

from typing import Any, NamedTuple


class Case(NamedTuple):
    """A file, and what its manifest must say; `problem` when there is none."""

    title: str
    data: bytes
    expect: dict[str, Any]
    problem: str = ""


def _ok(title: str, text: str | bytes, **expect: Any) -> Case:
    return Case(title, text if isinstance(text, bytes) else text.encode(), expect)


def _bad(title: str, text: str | bytes, problem: str) -> Case:
    return Case(title, text if isinstance(text, bytes) else text.encode(), {}, problem)


GITHUB = """---
name: github
description: "Interact with GitHub using the gh CLI. Use for issues, PRs, CI runs, and advanced queries."
metadata:
  {
    "openclaw":
      {
        "emoji": "🐙",
        "requires": { "bins": ["gh"] },
        "install":
          [
            {
              "id": "brew",
              "kind": "brew",
              "formula": "gh",
              "bins": ["gh"],
              "label": "Install GitHub CLI (brew)",
            },
          ],
      },
  }
---

# GitHub Skill

Use the `gh` CLI.
"""
NESTED = "---\nname: deep\ndescription: d\nmetadata: " + "{a: " * 40 + "1" + "}" * 40 + "\n---\nbody\n"
BOMB = "---\ndescription: d\na: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b,*b]\n---\n"

CASES: tuple[Case, ...] = (
    _ok("the usual shape", GITHUB, name="github", emoji="🐙", bins=("gh",), installs=("brew",)),
    _ok("windows line ends", GITHUB.replace("\n", "\r\n"), name="github", bins=("gh",), installs=("brew",)),
    _ok("old mac line ends", GITHUB.replace("\n", "\r"), name="github", bins=("gh",)),
    _ok("byte order mark", b"\xef\xbb\xbf" + GITHUB.encode(), name="github"),
    _ok(
        "utf-16 from notepad",
        "---\r\nname: wide\r\ndescription: Zürich\r\n---\r\n".encode("utf-16"),
        name="wide",
        description="Zürich",
    ),
    _ok(
        "no quotes round a colon",
        "---\nname: a\ndescription: Use this when: the user asks\n---\n",
        description="Use this when: the user asks",
    ),
    _ok(
        "colon at the end of a word",
        "---\nname: a\ndescription: Steps: read, write\nlicense: MIT\n---\n",
        description="Steps: read, write",
        license="MIT",
    ),
    _ok(
        "tabs for indentation",
        "---\nname: tabs\ndescription: d\nmetadata:\n\topenclaw:\n\t\temoji: X\n---\n",
        name="tabs",
        emoji="X",
    ),
    _ok("a quote that is not closed", '---\nname: a\ndescription: "Never closed\n---\n', description="Never closed"),
    _ok(
        "an apostrophe at the start", "---\nname: a\ndescription: 'tis the season\n---\n", description="tis the season"
    ),
    _ok("a folded description", "---\nname: a\ndescription: >\n  one\n  two\n---\n", description="one two"),
    _ok("a literal description", "---\nname: a\ndescription: |\n  one\n  two\n---\n", description="one two"),
    _ok(
        "a folded, stripped description", "---\nname: a\ndescription: >-\n  one\n  two\n\n---\n", description="one two"
    ),
    _ok("description over plain lines", "---\nname: a\ndescription: one\n  two\n---\n", description="one two"),
    _ok("no name", "---\ndescription: d\n---\n", name="folder"),
    _ok("an empty name", "---\nname:\ndescription: d\n---\n", name="folder"),
    _ok("a name with spaces", "---\nname: My Great Skill\ndescription: d\n---\n", name="My Great Skill"),
    _ok("a name with slashes", "---\nname: ../../evil\ndescription: d\n---\n", name="..-..-evil"),
    _ok("a name that is markup", "---\nname: <b>x</b>\ndescription: d\n---\n", name="b-x-b"),
    _ok("a very long name", f"---\nname: {'n' * 200}\ndescription: d\n---\n", name="n" * 64),
    _ok("a name that is a number", "---\nname: 2048\ndescription: The game\n---\n", name="2048"),
    _ok("a name that yaml takes for no", "---\nname: no\ndescription: d\n---\n", name="no"),
    _ok("a name that is a date", "---\nname: 2026-01-02\ndescription: d\n---\n", name="2026-01-02"),
    _ok(
        "chinese",
        "---\nname: 中文写作\ndescription: 帮助用户润色中文文章。\n---\n正文\n",
        name="中文写作",
        description="帮助用户润色中文文章。",
    ),
    _ok(
        "japanese with full-width colon",
        "---\nname: nihongo\ndescription: 使い方:文章を直す\n---\n",
        description="使い方:文章を直す",
    ),
    _ok(
        "korean",
        "---\nname: hangul\ndescription: 한국어 문서를 요약합니다\n---\n",
        description="한국어 문서를 요약합니다",
    ),
    _ok("arabic", "---\nname: arabic\ndescription: تلخيص النصوص\n---\n", description="تلخيص النصوص"),
    _ok("emoji everywhere", "---\nname: party 🎉\ndescription: 🎉 celebrate 👩‍👩‍👧\n---\n", name="party"),
    _ok("a huge description", f"---\nname: a\ndescription: {'word ' * 900}\n---\n", long_description=True),
    _ok(
        "metadata as a json string",
        '---\nname: a\ndescription: d\nmetadata: \'{"openclaw": {"emoji": "J"}}\'\n---\n',
        emoji="J",
    ),
    _ok(
        "metadata as json5",
        "---\nname: a\ndescription: d\nmetadata: \"{openclaw: {emoji: 'J', /* c */ always: true,},}\"\n---\n",
        emoji="J",
        always=True,
    ),
    _ok(
        "metadata of the older name",
        '---\nname: a\ndescription: d\nmetadata: {"clawdbot":{"emoji":"C"}}\n---\n',
        emoji="C",
    ),
    _ok(
        "both names",
        '---\nname: a\ndescription: d\nmetadata: {"clawdbot":{"emoji":"C"},"openclaw":{"emoji":"O"}}\n---\n',
        emoji="O",
    ),
    _ok("metadata that is a sentence", "---\nname: a\ndescription: d\nmetadata: some words\n---\n", noted="metadata"),
    _ok(
        "the seed's own shape",
        '---\nname: github\ndescription: "Interact with GitHub..."\nmetadata:\n  openclaw:\n    primaryEnv: node\n    requires:\n      env: ["GITHUB_TOKEN"]\n    invocation:\n      disableModelInvocation: false\n      allowRemote: true\n---\n',
        env=("GITHUB_TOKEN",),
        primary_env="node",
        disable_model_invocation=False,
    ),
    _ok(
        "invocation at the top",
        "---\ndescription: d\ninvocation:\n  disableModelInvocation: true\n---\n",
        disable_model_invocation=True,
    ),
    _ok(
        "the dashed spelling",
        "---\ndescription: d\ndisable-model-invocation: yes\n---\n",
        disable_model_invocation=True,
    ),
    _ok("not for people", "---\ndescription: d\nuser-invocable: false\n---\n", user_invocable=False),
    _ok(
        "requires as a word",
        "---\ndescription: d\nmetadata: {openclaw: {requires: {bins: ffmpeg, env: 'A, B'}}}\n---\n",
        bins=("ffmpeg",),
        env=("A", "B"),
    ),
    _ok(
        "a binary that is a command",
        "---\ndescription: d\nmetadata: {openclaw: {requires: {bins: ['a; rm -rf /', ok]}}}\n---\n",
        bins=("ok",),
        noted="not a name",
    ),
    _ok(
        "systems by other names",
        "---\ndescription: d\nmetadata: {openclaw: {os: [macOS, windows]}}\n---\n",
        os=("darwin", "win32"),
    ),
    _ok(
        "allowed-tools as words",
        "---\ndescription: d\nallowed-tools: Read Write Bash(git:*)\n---\n",
        tools=("Read", "Write", "Bash(git:*)"),
    ),
    _ok(
        "allowed-tools with commas",
        "---\ndescription: d\nallowed-tools: Read, Bash(npm run test:*, lint), Grep\n---\n",
        tools=("Read", "Bash(npm run test:*, lint)", "Grep"),
    ),
    _ok(
        "allowed-tools as a list",
        "---\ndescription: d\nallowed-tools:\n  - read\n  - exec\n---\n",
        tools=("read", "exec"),
    ),
    _ok(
        "declared permissions",
        "---\ndescription: d\nmetadata: {openclaw: {permissions: {tools: [read], network: false, paths: ['~/notes/**']}}}\n---\n",
        tools=("read",),
        network=False,
    ),
    _ok(
        "installers, some broken",
        "---\ndescription: d\nmetadata:\n  openclaw:\n    install:\n      - {id: a, kind: node, package: 'left-pad'}\n      - {id: b, kind: brew, formula: '../x'}\n      - {id: c, kind: shell, command: 'curl x | sh'}\n      - {id: d, kind: download, url: 'ftp://x'}\n      - {id: e, kind: uv, package: 'ruff==0.5'}\n---\n",
        installs=("a", "e"),
        noted="install step",
    ),
    _ok(
        "comments",
        "# comment\n---\n".replace("# comment\n", "") + "# about this file\nname: a # the name\ndescription: d\n---\n",
        name="a",
    ),
    _ok("spaces behind the fences", "---  \nname: a\ndescription: d\n---\t\nbody\n", name="a", body="body\n"),
    _ok("empty lines before the fence", "\n\n---\nname: a\ndescription: d\n---\nx\n", name="a", noted="empty space"),
    _ok("dots as the end", "---\nname: a\ndescription: d\n...\nbody\n", body="body\n"),
    _ok("no body", "---\nname: a\ndescription: d\n---", body=""),
    _ok("a rule in the body", "---\nname: a\ndescription: d\n---\none\n---\ntwo\n", body="one\n---\ntwo\n"),
    _ok("a key twice", "---\nname: a\nname: b\ndescription: d\n---\n", name="b", noted="twice"),
    _ok(
        "keys nobody knows",
        "---\nname: a\ndescription: d\nversion: 1.0\nauthor: {name: X}\ntags: [a, b]\n---\n",
        name="a",
    ),
    _ok("an alias bomb beside a description", BOMB, description="d", noted="read key by key"),
    _ok(
        "a tag that would run code",
        "---\ndescription: d\nx: !!python/object/apply:os.system ['id']\n---\n",
        description="d",
        noted="tag",
    ),
    _ok("nested too deep", NESTED, name="deep", noted="read key by key"),
    _ok("control characters", "---\nname: a\ndescription: one\x07\x1b[31m two\n---\n", description="one[31m two"),
    _ok("bytes that are not utf-8", b"---\nname: a\ndescription: caf\xe9\n---\n", description="caf\ufffd"),
    _bad("no front matter", "# Just a heading\n\nText.\n", "no front matter"),
    _bad("never closed", "---\nname: a\ndescription: d\n\n# Body\n", "does not end"),
    _bad("no description", "---\nname: a\n---\nbody\n", "no description"),
    _bad("an empty description", '---\nname: a\ndescription: ""\n---\n', "no description"),
    _bad("empty", "", "no front matter"),
    _bad("only fences", "---\n---\n", "no keys"),
    _bad("a binary file", b"\x7fELF\x00\x00\x01", "not text"),
    _bad("front matter without end in size", "---\ndescription: d\n" + "k: v\n" * 20_000 + "---\n", "65,536"),
)
