"""What starting costs: modules imported and CPU time against a bare interpreter. Run: python benchmarks/start.py"""

import json
import os
import resource
import subprocess
import sys
import tempfile

ROUNDS = 7
COMMANDS = {
    "bare python -c pass": [sys.executable, "-c", "pass"],
    "openclaw --version": [sys.executable, "-m", "openclaw", "--version"],
    "openclaw --help": [sys.executable, "-m", "openclaw", "--help"],
    "openclaw config file": [sys.executable, "-m", "openclaw", "config", "file"],
    "openclaw sessions list": [sys.executable, "-m", "openclaw", "sessions", "list"],
    "openclaw status": [sys.executable, "-m", "openclaw", "status"],
}
LIST_MODULES = (
    "import sys, runpy; sys.argv = {argv!r}\n"
    "try: runpy.run_module('openclaw', run_name='__main__')\n"
    "except SystemExit: pass\n"
    "import json; sys.stderr.write('@@' + json.dumps(len(sys.modules)))"
)


def cpu(command: list[str], env: dict[str, str]) -> float:
    """The least CPU milliseconds of several runs; the least is what the machine's load disturbs least."""
    best = float("inf")
    for _ in range(ROUNDS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, env=env, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best * 1000


def modules(command: list[str], env: dict[str, str]) -> int:
    if command[1] == "-c":
        code = "import sys, json; sys.stderr.write('@@' + json.dumps(len(sys.modules)))"
    else:
        code = LIST_MODULES.format(argv=["openclaw", *command[3:]])
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    return int(json.loads(done.stderr.rpartition("@@")[2]))


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        env = {"HOME": home, "PATH": os.environ["PATH"], "OPENCLAW_NO_LOCAL_MODELS": "1"}
        rows = [(name, modules(command, env), cpu(command, env)) for name, command in COMMANDS.items()]
    bare_modules, bare_cpu = rows[0][1], rows[0][2]
    print(f"{'command':<24} {'modules':>8} {'beyond bare':>12} {'CPU ms':>8} {'x bare':>7}")
    for name, count, took in rows:
        print(f"{name:<24} {count:>8} {count - bare_modules:>12} {took:>8.1f} {took / bare_cpu:>7.1f}")


if __name__ == "__main__":
    main()
