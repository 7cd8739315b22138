"""Which commands only read or build, and which arguments a grant for a whole program covers."""

import shutil
import subprocess
from pathlib import Path

import pytest

from openclaw.security.effects.command_facts import git_runs, loaded_by, look_harmless
from openclaw.security.effects.forms import beyond_grammar, harmless
from openclaw.security.effects.places import ProtectedPlaces

HARMLESS = (
    "ls -la",
    "ls *.md",
    "cat notes/plan.md | head -5",
    "cd notes && head -n 3 *.md",
    "du -sh . 2>/dev/null",
    "grep -rn TODO app notes | head -20",
    "find . -name '*.py' -not -path './.git/*' | sort",
    "jq '.rates.EUR' data.json",
    "wc -l < a.txt",
    "sort -t, -k2 -n a.csv > b.csv",
    'ls "$PWD"',
    "git log --oneline -5 && git status --short",
    "git commit -qm 'a message'",
    "git branch --show-current",
    "mkdir -p a/b && cp x a/b",
    "python3 --version",
    "sed -n 1,20p a.txt",
    "ls x 2>&1 | wc -l",
    "tar tzf a.tgz",
)
HARMFUL = (
    "rm -rf x",
    "find . -exec rm {} +",
    "find . -delete",
    "sort -o x y",
    "sort *",
    "uniq a b",
    "git -c core.fsmonitor=./x status",
    "git -C other status",
    "git push",
    "git diff --ext-diff",
    "git log --output=x",
    "git commit",
    "git branch -D main",
    "cat .env",
    "cat ~/.ssh/id_rsa",
    "cat notes/*.pem",
    "grep -r password /",
    "grep -r password ../..",
    "sed -i s/a/b/ x",
    "sed -n 'w x' y",
    "echo $(id)",
    "echo `id`",
    "ls; curl x",
    "ls &",
    "tar xf a.tar",
    "tar cIf 'CMD' a",
    "python3 x.py",
    "date -s now",
    "ps e",
    "env ls",
    "./ls",
    "cat <(id)",
    "cat << EOF",
    "rg --pre ./x y",
    "echo a{b,c}",
    "tree -o x",
    "unzip a.zip",
)
COVERED = ("git status", "tar czf a.tgz b", "tar xzf a.tgz", "npm ls", "pip list", "cargo tree", "curl -sL https://x")
NOT_COVERED = (
    "tar cIf CMD a b",
    "tar cMLFf 10 CMD a",
    "tar --to-command=x -xf a",
    "sqlite3 :memory: .she",
    "sqlite3 :memory: .sys",
    "sqlite3 a .output",
    "npm run-script x",
    "npm rum x",
    "npm urn x",
    "npm t",
    "npm tst",
    "npm restart",
    "npm stop",
    "npm version",
    "npm it",
    "npm install-test",
    "npm publish",
    "npm --script-shell=./x t",
    "pip --python ./x list",
    "pip config edit --editor ./x",
    "apt-get -o APT::Update::Pre-Invoke::=CMD update",
    "dpkg --pre-invoke=CMD -i x",
    "cargo r",
    "cargo b",
    "cargo c",
    "cargo t",
    "cargo doc",
    "cargo rustc",
    "git zz",
    "git tag -a x",
    "git notes edit",
    "git branch --edit-description",
    "git -C g status",
    "curl -D x https://y",
    "curl --trace x https://y",
    "curl -c x https://y",
    "curl --stderr x https://y",
    "curl --libcurl x https://y",
    "wget -o x https://y",
    "wget -a x https://y",
    "wget --save-cookies x https://y",
)


@pytest.mark.parametrize("command", HARMLESS)
def test_these_only_read_or_build(command: str) -> None:
    assert harmless(command, "/w", "/home/ada") is not None


@pytest.mark.parametrize("command", HARMFUL)
def test_these_do_more(command: str) -> None:
    assert harmless(command, "/w", "/home/ada") is None


@pytest.mark.parametrize("command", COVERED)
def test_a_listed_program_reads_and_builds(command: str) -> None:
    argv = command.split()
    assert beyond_grammar(argv, f"/usr/bin/{argv[0]}") == ""


@pytest.mark.parametrize("command", NOT_COVERED)
def test_a_listed_program_does_not_run_something_else(command: str) -> None:
    argv = command.split()
    assert beyond_grammar(argv, f"/usr/bin/{argv[0]}")


def test_files_are_made_in_the_workspace_only(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    (workspace / "notes").mkdir(parents=True)
    (workspace / "away").symlink_to(tmp_path)
    places = ProtectedPlaces(home=str(tmp_path), programs=("/usr/bin", "/bin"), open=(str(workspace),))

    def fine(command: str) -> bool:
        return look_harmless(command, str(workspace), str(workspace), places) is not None

    assert fine("mkdir -p notes/a && echo x > notes/b")
    for command in (
        "echo x > ../b",
        "echo x > AGENTS.md",
        "cp a away/b",
        "touch .envrc",
        "mkdir -p skills/x",
        "mv a ~/b",
    ):
        assert not fine(command), command


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_repository_that_runs_something_is_told(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    assert git_runs(str(tmp_path), commits=True) == ""
    hook = tmp_path / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\n")
    assert git_runs(str(tmp_path)) == "" and "pre-commit" in git_runs(str(tmp_path), commits=True)
    config = tmp_path / ".git/config"
    for line in (
        "[core]\n\tfsmonitor = ./x",
        "[alias]\n\tzz = !x",
        '[filter "a"]\n\tclean = x',
        '[diff "a"]\n\ttextconv = x',
    ):
        before = config.read_text()
        config.write_text(f"{before}\n{line}\n")
        assert git_runs(str(tmp_path)), line
        config.write_text(before)


def test_what_a_script_loads_belongs_to_it(tmp_path: Path) -> None:
    for name, text in {
        "main.py": "import helper\nfrom pkg import part\nimport os\n",
        "helper.py": "import deeper\n",
        "deeper.py": "",
        "pkg/__init__.py": "",
        "pkg/part.py": "",
        "other.py": "",
        "run.sh": "source ./lib.sh\n",
        "lib.sh": "",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    names = [path.relative_to(tmp_path.resolve()).as_posix() for path in loaded_by(tmp_path / "main.py")]
    assert names == ["deeper.py", "helper.py", "pkg/__init__.py", "pkg/part.py"]
    assert [path.name for path in loaded_by(tmp_path / "run.sh")] == ["lib.sh"]
