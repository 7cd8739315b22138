"""Commands people really type, read as a shell reads them: each program with its arguments, nothing lost or added."""

import pytest

from openclaw.security.shell import UnclearCommand, parse_shell

# One program, and no quoting: its words are what stands between the blanks.
PLAIN = r"""
ls
ls -la
ls -la src
ls --color=auto
pwd
whoami
id -u
date +%Y-%m-%d
date -u
uptime
uname -a
hostname
df -h
du -sh .
free -m
ps aux
ps -ef
top -b -n 1
cat README.md
cat a.txt b.txt
head -n 20 file.log
tail -n 50 file.log
wc -l file.txt
sort -u names.txt
uniq -c sorted.txt
cut -d: -f1 users.txt
tr a-z A-Z
file image.png
stat setup.py
touch new.txt
mkdir -p a/b/c
rmdir empty
cp a.txt b.txt
cp -r src dst
mv old.txt new.txt
rm notes.txt
rm -rf build
ln -s target link
chmod +x run.sh
chmod 644 f
chown user:group f
find . -name setup.py
find . -type f -mtime -1
grep -rn TODO src
grep -c error app.log
rg --files
rg -n pattern src
diff a.txt b.txt
diff -u old new
md5sum f.iso
sha256sum -c sums.txt
tar -czf out.tgz dir
tar -xzf out.tgz
tar -tf out.tgz
zip -r out.zip dir
unzip out.zip
gzip f
gunzip f.gz
git status
git diff
git diff --stat
git log --oneline -5
git add .
git add -A
git commit --amend --no-edit
git checkout main
git checkout -b feature/x
git switch main
git branch -a
git branch -D old
git fetch origin
git pull --rebase
git push origin main
git stash pop
git show HEAD~1
git reset --hard HEAD
git remote -v
git rev-parse --show-toplevel
git clone https://example.com/a/b.git
git tag v1.0.0
git blame src/app.py
git merge --no-ff feature
git cherry-pick abc123
python3 --version
python3 script.py
python3 -m pytest -q
python3 -m venv .venv
pip list
pip install -r requirements.txt
uv sync
pytest tests/unit -x
ruff check .
mypy src
node server.js
npm test
npm run build
npm ci
yarn install
pnpm build
cargo build --release
cargo test
go build ./...
go test ./...
make
make test
cmake -S . -B build
docker ps -a
docker build -t app:1 .
docker compose up -d
kubectl get pods -n prod
terraform plan
curl -s https://example.com/api?x=1
curl -X POST https://example.com
curl -I https://example.com
wget https://example.com/f.tgz
ping -c 3 example.com
dig example.com
nslookup example.com
ssh-keygen -l -f key.pub
scp f host:/tmp/f
rsync -av src/ host:dst/
systemctl status nginx
journalctl -u app -n 100
crontab -l
ffmpeg -i in.mp4 out.mp3
convert in.png -resize 50% out.png
pandoc in.md -o out.pdf
sqlite3 app.db .tables
psql -l
jq .name package.json
openssl version
which python3
env
printenv PATH
echo hello
echo -n a
true
false
sleep 1
seq 1 10
yes no
tee out.txt
xxd f.bin
./run.sh --flag
scripts/test -x
/usr/bin/python3 /opt/app/main.py
bin/app --port=8080
""".strip().splitlines()

QUOTED: list[tuple[str, list[list[str]]]] = [
    ("git commit -m 'first commit'", [["git", "commit", "-m", "first commit"]]),
    ('git commit -m "it\'s done"', [["git", "commit", "-m", "it's done"]]),
    ("grep -n 'a b' f", [["grep", "-n", "a b", "f"]]),
    ("grep -E '^(a|b)+$' f", [["grep", "-E", "^(a|b)+$", "f"]]),
    ("find . -name '*.py'", [["find", ".", "-name", "*.py"]]),
    (r"find . -name \*.py", [["find", ".", "-name", "*.py"]]),
    (r"cat my\ file.txt", [["cat", "my file.txt"]]),
    ('cat "my file.txt"', [["cat", "my file.txt"]]),
    ("echo 'a;b' \"c|d\"", [["echo", "a;b", "c|d"]]),
    ("echo 'a'\"b\"c", [["echo", "abc"]]),
    ("echo ''", [["echo", ""]]),
    ('echo "a\\"b"', [["echo", 'a"b']]),
    (r"echo a\\b", [["echo", r"a\b"]]),
    ("awk '{print $1}' f", [["awk", "{print $1}", "f"]]),
    ("sed 's/a/b/g' f", [["sed", "s/a/b/g", "f"]]),
    ("jq '.items[] | .name' f.json", [["jq", ".items[] | .name", "f.json"]]),
    ("python3 -c 'print(1)'", [["python3", "-c", "print(1)"]]),
    ("curl -H 'Accept: text/html' https://example.com", [["curl", "-H", "Accept: text/html", "https://example.com"]]),
    ("date '+%H:%M'", [["date", "+%H:%M"]]),
    ("ls -la | head -5", [["ls", "-la"], ["head", "-5"]]),
    ("cat f | sort | uniq -c", [["cat", "f"], ["sort"], ["uniq", "-c"]]),
    ("ps aux | grep python | wc -l", [["ps", "aux"], ["grep", "python"], ["wc", "-l"]]),
    ("git add . && git commit -m x", [["git", "add", "."], ["git", "commit", "-m", "x"]]),
    ("mkdir -p out && touch out/a", [["mkdir", "-p", "out"], ["touch", "out/a"]]),
    ("test -f x || touch x", [["test", "-f", "x"], ["touch", "x"]]),
    ("ls; pwd", [["ls"], ["pwd"]]),
    ("ls; pwd;", [["ls"], ["pwd"]]),
    ("ls\npwd", [["ls"], ["pwd"]]),
    ("ls\n\npwd\n", [["ls"], ["pwd"]]),
    ("echo a|cat", [["echo", "a"], ["cat"]]),
    ("env ls", [["ls"]]),
    ("nohup ls", [["ls"]]),
    ("timeout 5 ls -la", [["ls", "-la"]]),
    ("nice ls", [["ls"]]),
    ("setsid ls", [["ls"]]),
    ("command ls", [["ls"]]),
    ("env nohup timeout 5 ls", [["ls"]]),
    ("\tls   -la\t", [["ls", "-la"]]),
    ("echo café", [["echo", "café"]]),
    ("cat 日本.txt", [["cat", "日本.txt"]]),
    ("echo a=b", [["echo", "a=b"]]),
    ("make CC=gcc", [["make", "CC=gcc"]]),
]


def test_there_are_enough_of_them() -> None:
    assert len(set(PLAIN)) + len(QUOTED) >= 150


@pytest.mark.parametrize("command", PLAIN)
def test_plain_words_are_words(command: str) -> None:
    segments = parse_shell(command)
    if command == "env":  # alone it prints the environment, in front of others it starts them
        assert isinstance(segments, UnclearCommand)
        return
    if "?" in command or "*" in command:
        assert isinstance(segments, UnclearCommand)
        return
    assert not isinstance(segments, UnclearCommand), segments
    assert [list(segment.argv) for segment in segments] == [command.split()]


@pytest.mark.parametrize(("command", "argvs"), QUOTED)
def test_quotes_pipes_and_chains_are_read_as_a_shell_reads_them(command: str, argvs: list[list[str]]) -> None:
    segments = parse_shell(command)
    assert not isinstance(segments, UnclearCommand), segments
    assert [list(segment.argv) for segment in segments] == argvs
