"""A `docker` for tests: the words of the real client, with bubblewrap behind it. Run as a program.

It keeps its containers as JSON in $HOME/containers and writes every call to $HOME/calls.jsonl.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

HOME = Path(os.environ["HOME"])
VALUED = {
    "--name",
    "--label",
    "--hostname",
    "--network",
    "--tmpfs",
    "--cap-drop",
    "--security-opt",
    "--user",
    "--workdir",
}
VALUED |= {"--entrypoint", "--pids-limit", "--memory", "--cpus", "--ulimit", "--env", "--mount", "--format", "--filter"}


def flags(words: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    found: dict[str, list[str]] = {}
    while words and words[0].startswith("--"):
        name = words.pop(0)
        found.setdefault(name, []).append(words.pop(0) if name in VALUED else "")
    return found, words


def kept(name: str) -> Path:
    return HOME / "containers" / f"{name}.json"


def main() -> int:
    verb, *rest = sys.argv[1:]
    with (HOME / "calls.jsonl").open("a") as log:
        log.write(json.dumps(sys.argv[1:]) + "\n")
    if (HOME / "down").exists():
        print("Cannot connect to the Docker daemon. Is it running?", file=sys.stderr)
        return 1
    return {
        "version": version,
        "image": image,
        "run": run,
        "inspect": inspect,
        "exec": execute,
        "rm": remove,
        "ps": listed,
    }[verb](rest)


def version(words: list[str]) -> int:
    print("28.0.0")
    return 0


def image(words: list[str]) -> int:
    return 1 if (HOME / "no-image").exists() else 0


def run(words: list[str]) -> int:
    found, rest = flags(words)
    (HOME / "containers").mkdir(exist_ok=True)
    kept(found["--name"][0]).write_text(json.dumps({"flags": found, "image": rest[0]}))
    return 0


def inspect(words: list[str]) -> int:
    found, rest = flags(words)
    place = kept(rest[0])
    if not place.exists():
        return 1
    label = json.loads(place.read_text())["flags"]["--label"][0].partition("=")[2]
    print("true" if "Running" in found["--format"][0] else label)
    return 0


def remove(words: list[str]) -> int:
    kept(flags(words)[1][0]).unlink(missing_ok=True)
    return 0


def listed(words: list[str]) -> int:
    for place in sorted((HOME / "containers").glob("*.json")):
        print(f"{place.stem}\trunning\t{json.loads(place.read_text())['image']}")
    return 0


def execute(words: list[str]) -> int:
    """Like the real client: ending it leaves running what it started, so that must be ended from inside."""
    found, (name, *argv) = flags(words)
    made = json.loads(kept(name).read_text())["flags"]
    binds = [dict(part.partition("=")[::2] for part in text.split(",")) for text in made["--mount"]]
    mounts = [
        part
        for bind in binds
        for part in ("--ro-bind" if "readonly" in bind else "--bind", bind["source"], bind["target"])
    ]
    python = str(Path(getattr(sys, "_base_executable", sys.executable)).resolve())
    import msgspec

    lib = str(Path(msgspec.__file__).parent)
    given = [part for text in (*made["--env"], *found.get("--env", [])) for part in ("--setenv", *text.split("=", 1))]
    command = ["bwrap", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--proc", "/proc", "--dev", "/dev"]
    command += ["--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib"]
    command += ["--symlink", "usr/lib64", "/lib64", "--clearenv", "--setenv", "PATH", "/usr/bin:/bin", *given]
    command += ["--ro-bind", str(Path(python).parent.parent), str(Path(python).parent.parent), *mounts]
    command += ["--ro-bind", lib, "/opt/openclaw/lib/msgspec", "--chdir", found.get("--workdir", ["/"])[0], "--"]
    command += [python if argv[0] == "python3" else argv[0], *argv[1:]]
    process = subprocess.Popen(command, start_new_session=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return process.wait()


if __name__ == "__main__":
    sys.exit(main())
