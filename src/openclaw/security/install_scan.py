"""Scans skills and plugins for known supply-chain attacks: a table of patterns, and checks of file contents. Pure.

`critical` is what no honest skill needs; `warn` is what an honest one may need and a person should know of. Patterns
run in linear time: repetitions are bounded or possessive.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct

from openclaw.core.progress import Report, no_report, reported
from openclaw.core.text import compile_lazily, fold
from openclaw.security.scan import scan

Severity = Literal["warn", "critical"]


class AttackRule(Struct, frozen=True):
    name: str
    severity: Severity
    message: str
    needs: tuple[str, ...]
    """Lower-case words, one of which must occur for the pattern to be tried."""
    pattern: re.Pattern[str]


def _rule(name: str, severity: Severity, message: str, needs: str, *patterns: str) -> AttackRule:
    either = "|".join(f"(?:{pattern})" for pattern in patterns)
    return AttackRule(name, severity, message, tuple(needs.split()), compile_lazily(either, re.I | re.M))


_FETCH = r"(?:curl|wget|fetch|irm|iwr|invoke-webrequest|invoke-restmethod)\b"
_SHELLS = r"(?:(?:ba|z|da|k|fi)?sh|python[0-9.]*|node|perl|ruby|iex|invoke-expression|source)\b"
_HIDE_FROM = r"(?:the\s+|your\s+)?(?:user|owner|human|operator|them)\b"

RULES: tuple[AttackRule, ...] = (
    _rule(
        "pipe-to-shell",
        "critical",
        "downloads something and runs it at once",
        "curl wget fetch irm iwr invoke- requests.get urlopen npx uvx pipx bunx",
        _FETCH + r"[^\n|]{0,300}\|\s*+(?:sudo\s++(?:-\w+\s++)?)?(?:/usr/bin/env\s++|/bin/)?" + _SHELLS,
        _SHELLS + r"[^\n]{0,40}(?:<\(|\$\(|`)\s*+" + _FETCH,
        r"\b(?:eval|exec|iex)\b[^\n]{0,40}(?:\$\(|`|\(\s*+)" + _FETCH,
        r"\beval\b[^\n]{0,40}\brequests\.get",
        r"\bexec\s*+\(\s*+(?:requests\.get|urllib\.request\.urlopen|urlopen)",
        _FETCH
        + r"[^\n]{0,300}(?:&&|;)\s*+(?:sudo\s++)?(?:chmod\s++\S++\s++\S++\s*+(?:&&|;)\s*+)?(?:(?:ba|z)?sh\s++|\./)\S",
        r"\b(?:npx|uvx|pipx\s++run|bunx)\s++(?:--?\w[\w-]*+\s++)*+(?:https?://|git\+)",
    ),
    _rule(
        "download-first",
        "critical",
        "wants something fetched and run by hand before the skill is used",
        "download grab get fetch prerequisite requirement first before password passphrase passcode .exe "
        ".msi .scr .dmg .pkg .appimage .apk glot. paste rentry hastebin transfer.sh anonfiles gofile "
        "ghostbin 0x0.st termbin file.io",
        r"\b(?:download|grab|get|fetch)\b[^\n]{0,160}\b(?:and|then)\s++(?:run|execute|launch|open|start|double-click)\b"
        r"[^\n]{0,80}\b(?:it|installer|binary|executable|exe|agent|script|pkg|dmg|app)\b",
        r"\b(?:prerequisite|requirement|first|before)\w*+\b[^\n]{0,200}\b(?:paste|copy)\b[^\n]{0,80}"
        r"\b(?:terminal|shell|powershell|command prompt)\b",
        r"\bpassword\b[^\n]{0,40}\b(?:zip|archive|extract|unzip|7z|rar)\b",
        r"\b(?:zip|archive|extract|unzip|7z|rar)\b[^\n]{0,80}\bpass(?:word|phrase|code)\b",
        r"https?://\S{1,200}\.(?:exe|msi|scr|dmg|pkg|appimage|apk)\b",
        r"https?://(?:[\w-]+\.)*(?:glot\.io|pastebin\.com|rentry\.co|rentry\.org|paste\.ee|hastebin\.com|transfer\.sh|"
        r"anonfiles\.\w+|gofile\.io|ghostbin\.\w+|dpaste\.\w+|0x0\.st|termbin\.com|file\.io)\b",
    ),
    _rule(
        "encoded-command",
        "critical",
        "runs something that is encoded so that nobody can read it",
        "base64 exec eval compile function marshal pickle powershell xxd printf echo __import__",
        r"base64\s++(?:-d|-D|--decode|-di)\b[^\n]{0,80}\|\s*+(?:sudo\s++)?" + _SHELLS,
        r"base64\s++(?:-d|-D|--decode)\b[^\n]{0,200}>\s*+\S++\s*+(?:&&|;)",
        r"\b(?:exec|eval|compile)\s*+\(\s*+(?:\w+\.){0,3}(?:b64decode|b32decode|a85decode|unhexlify|fromhex|decompress|loads)\b",
        r"\b(?:exec|eval|Function)\s*+\(\s*+(?:atob|Buffer\.from|String\.fromCharCode|unescape|decodeURIComponent)\b",
        r"\bmarshal\.loads\b",
        r"\bpickle\.loads?\b[^\n]{0,80}(?:b64decode|urlopen|requests)",
        r"\bpowershell(?:\.exe)?\b[^\n]{0,120}\s-e(?:nc|ncodedcommand)?\s++[A-Za-z0-9+/=]{16,}",
        r"\bxxd\s++-r\b[^\n]{0,80}\|\s*+" + _SHELLS,
        r"\b(?:printf|echo\s++-e)\s++[\"']?(?:\\x[0-9a-f]{2}){8,}",
        r"\b(?:getattr\s*+\(\s*+)?__import__\s*+\(\s*+[\"'](?:os|subprocess|socket)[\"']\s*+\)",
    ),
    _rule(
        "reverse-shell",
        "critical",
        "opens a way in for somebody else",
        "/dev/ nc ncat netcat socat bash dup2 mkfifo ssh",
        r"/dev/(?:tcp|udp)/",
        r"\b(?:nc|ncat|netcat)\b[^\n]{0,80}\s-\w*[ec]\b",
        r"\bsocat\b[^\n]{0,120}\bexec:",
        r"\bbash\s++-i\b[^\n]{0,40}[>&]",
        r"\bos\.dup2\s*+\(",
        r"\bmkfifo\b[^\n]{0,120}\|\s*+(?:ba)?sh\b",
        r"\bssh\b[^\n]{0,80}\s-R\s*+\d",
    ),
    _rule(
        "reads-credentials",
        "critical",
        "reads where credentials are kept",
        ".ssh .aws .gnupg .netrc .kube .docker .npmrc .pypirc .git-cred .config .azure id_ security "
        "secret-tool .openclaw auth-profiles chrome firefox brave edge login cookies key4 local wallet "
        "phrase private printenv env cat",
        r"(?:~|\$\{?HOME\}?|/home/\w+|/Users/\w+|/root|expanduser\([^)\n]{0,8})/?\.(?:ssh/(?:id_|authorized|config)|aws/|gnupg/|netrc|kube/config|docker/config"
        r"|npmrc|pypirc|git-credentials|config/gh/hosts|config/gcloud|azure/)",
        r"\bid_(?:rsa|ed25519|ecdsa)\b",
        r"\bsecurity\s++(?:find-(?:generic|internet)-password|dump-keychain)\b",
        r"\bsecret-tool\s++(?:lookup|search)\b",
        r"\.openclaw(?:-\w+)?/(?:openclaw\.json|credentials|agents/\S{1,80}auth-profiles|\.env|exec-approvals|state/)",
        r"\bauth-profiles\.json\b",
        r"(?:Login Data|Cookies|key4\.db|logins\.json|Local State)\b[^\n]{0,80}(?:Chrome|Firefox|Brave|Edge|sqlite)",
        r"(?:Chrome|Firefox|Brave|Edge)\b[^\n]{0,120}(?:Login Data|Cookies|key4\.db|logins\.json)",
        r"\bwallet\.dat\b",
        r"\b(?:seed|recovery|mnemonic)\s++phrase\b",
        r"\b(?:paste|enter|send|export|provide|share)\b[^\n]{0,60}\bprivate\s++key\b",
        r"\b(?:printenv|env)\s*+\|\s*+(?:curl|nc|base64|tee)\b",
        r"\bcat\s++\S{0,80}\.env\b[^\n]{0,80}\|",
    ),
    _rule(
        "sends-out",
        "critical",
        "sends data to a drop-off",
        "webhook requestbin pipedream ngrok burpcollab oast interact.sh requestcatcher beeceptor "
        "trycloudflare serveo localhost.run telegram curl wget environ process.env",
        r"https?://(?:[\w-]+\.)*(?:webhook\.site|requestbin\.\w+|pipedream\.net|ngrok(?:-free)?\.(?:io|app|dev)|burpcollaborator\.net|"
        r"oast\.\w+|interact\.sh|requestcatcher\.com|beeceptor\.com|trycloudflare\.com|serveo\.net|localhost\.run)\b",
        r"https?://(?:discord(?:app)?\.com/api/webhooks/|api\.telegram\.org/bot\d)",
        r"\b(?:curl|wget)\b[^\n]{0,200}(?:--data(?:-binary|-raw)?|-d|-F|-T|--upload-file|--post-file)[ =]"
        r"[\"']?[^\n]{0,40}(?:\$\((?:env|printenv|cat\b)|`(?:env|cat\b)|@[~/]|@\$HOME|\$\w*(?:KEY|TOKEN|SECRET|PASSWORD))",
        r"\brequests\.post\s*+\([^\n]{0,200}os\.environ\b(?!\s*\[|\.get)",
        r"\bos\.environ\b(?!\s*\[|\.get)[^\n]{0,120}\b(?:urlopen|requests\.post|httpx\.post)",
        r"JSON\.stringify\s*+\(\s*+process\.env\s*+\)",
    ),
    _rule(
        "bare-address",
        "critical",
        "talks to a bare network address",
        "http",
        r"https?://(?!127\.|0\.0\.0\.0|10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.|169\.254\.)\d{1,3}(?:\.\d{1,3}){3}\b",
    ),
    _rule(
        "conceals",
        "critical",
        "asks the assistant to keep something from its user",
        "not don't never without hide conceal keep silently secretly covertly quietly",
        r"\b(?:do\s++not|don't|never|without)\b[^\n.]{0,40}\b(?:tell|inform|mention|show|reveal|notify|alert|asking|telling|informing|notifying)\b"
        r"[^\n.]{0,40}\b" + _HIDE_FROM,
        r"\b(?:hide|conceal|keep)\b[^\n.]{0,60}\b(?:from|secret\s++from)\s++" + _HIDE_FROM,
        r"\b(?:silently|secretly|covertly|quietly)\s++(?:run|execute|send|upload|copy|add|install|read|forward|post|collect|append|write)\b",
    ),
    _rule(
        "switches-off-protection",
        "critical",
        "switches off a protection",
        "xattr spctl csrutil mppreference executionpolicy disable turn deactivate setenforce openclaw "
        "approv confirmation no-check tls_reject curl",
        r"\bxattr\b[^\n]{0,60}\bcom\.apple\.quarantine\b",
        r"\bspctl\s++--(?:master-disable|global-disable|add)\b",
        r"\bcsrutil\s++disable\b",
        r"\bSet-MpPreference\b",
        r"\bAdd-MpPreference\b[^\n]{0,40}-Exclusion",
        r"\bSet-ExecutionPolicy\b[^\n]{0,40}\b(?:Bypass|Unrestricted)\b",
        r"-ExecutionPolicy\s++Bypass\b",
        r"\b(?:disable|turn\s++off|deactivate)\b[^\n.]{0,40}\b(?:antivirus|anti-virus|gatekeeper|defender|firewall|sandbox)\b",
        r"\bsetenforce\s++0\b",
        r"\bopenclaw\s++config\s++set\s++(?:tools\.exec|tools\.elevated|security\.|skills\.(?:trust|verify|permissions)|approvals|gateway\.auth)",
        r"\bopenclaw\s++skills\s++(?:trust|install)\b[^\n]{0,80}(?:--yes|--accept)",
        r"\bopenclaw\s++exec-policy\s++preset\s++yolo\b",
        r"\b(?:without|skip|bypass|ignore)\b[^\n.]{0,20}\b(?:approval|confirmation)s?\b[^\n.]{0,20}\b(?:prompt|request|check|gate|step)s?\b",
        r"\b(?:bypass|disable|auto-?approve)\b[^\n.]{0,30}\bapprovals?\b",
        r"--no-check-certificate\b|\bNODE_TLS_REJECT_UNAUTHORIZED=0|\bcurl\s++(?:-\w*k\w*|--insecure)\s",
    ),
    _rule(
        "stays-behind",
        "critical",
        "arranges to be run again later",
        "crontab launch systemctl bashrc zshrc profile zshenv .ssh currentversion schtasks hooks",
        r"\bcrontab\s++(?:-(?!l\b)|\S++\s*+$)",
        r"\|\s*+crontab\b",
        r"Library/Launch(?:Agents|Daemons)",
        r"\blaunchctl\s++(?:load|bootstrap)\b",
        r"\bsystemctl\b[^\n]{0,40}\benable\b",
        r">>?\s*+[\"']?(?:~|\$\{?HOME\}?)/\.(?:bashrc|zshrc|profile|bash_profile|zprofile|zshenv)\b",
        r">>?\s*+[\"']?(?:~|\$\{?HOME\}?)/\.ssh/",
        r"CurrentVersion\\+Run\b",
        r"\bschtasks\b[^\n]{0,40}/create\b",
        r"\.git/hooks/\w",
    ),
    _rule(
        "rewrites-the-agent",
        "critical",
        "changes who the assistant is or what it always does",
        "soul.md agents.md heartbeat.md identity.md bootstrap.md",
        r"\b(?:append|add|write|insert|put|echo|save|copy|replace|overwrite|edit)\b[^\n]{0,200}\b(?:SOUL|AGENTS|HEARTBEAT|IDENTITY|BOOTSTRAP)\.md\b",
        r"(?:>>?|\btee\b(?:\s++-a)?)\s*+[\"']?\S{0,80}\b(?:SOUL|AGENTS|HEARTBEAT|IDENTITY|BOOTSTRAP)\.md\b",
    ),
    _rule(
        "destroys",
        "critical",
        "deletes far more than its own files",
        "rm mkfs dd :() rmtree",
        r"\brm\s++-\w*[rf]\w*\s++(?:-\w++\s++)*+[\"']?(?:/(?:\s|\Z|\*)|~/?(?:\s|\Z|\*)|\$\{?HOME\}?/?[\"']?(?:\s|\Z|\*)|/\*|--no-preserve-root)",
        r"\bmkfs\.\w+\s|\bdd\b[^\n]{0,80}\bof=/dev/(?:sd|nvme|disk|hd)",
        r":\(\)\s*+\{\s*+:\|:&\s*+\};:",
        r"\bshutil\.rmtree\s*+\([^\n]{0,40}(?:Path\.home\(\)|expanduser\([\"']~[\"']\))\s*+[,)]",
    ),
    _rule(
        "takes-over",
        "warn",
        "claims to apply to everything",
        "this every any all overrid supersede precedence important",
        r"\b(?:always|must)\b[^\n.]{0,40}\b(?:use|read|load|run|invoke|call)\b[^\n.]{0,20}\bthis\s++skill\b[^\n.]{0,40}\b(?:first|before|every|any|all)\b",
        r"\b(?:for|on)\s++(?:every|any|all)\s++(?:request|message|conversation|task|turn)s?\b[^\n.]{0,60}\b(?:use|read|load|run|invoke)\b",
        r"\b(?:overrides?|supersedes?|takes?\s++precedence\s++over)\b[^\n.]{0,60}\b(?:other\s++)?(?:skill|instruction|rule|polic|system)",
        r"\bIMPORTANT\b[^\n]{0,40}\b(?:to\s++the\s++)?(?:AI|LLM|assistant|agent|model)s?\b\s*+:",
    ),
    _rule("asks-for-root", "warn", "runs something as the administrator", "sudo", r"(?:^|[\s`;&|])sudo\s++\S"),
    _rule(
        "foreign-registry",
        "warn",
        "installs packages from somewhere other than the usual registry",
        "index-url registry pip npm goproxy",
        r"--(?:extra-)?index-url[ =]\s*+(?!https://pypi\.org)\S",
        r"--registry[ =]\s*+(?!https://registry\.npmjs\.org)\S",
        r"\bpip3?\s++install\b[^\n]{0,80}\b(?:git\+|https?://)",
        r"\bnpm\s++(?:i|install)\b[^\n]{0,80}\b(?:git\+|https?://|github:)",
        r"\bgo\s++install\b[^\n]{0,120}\bGOPROXY=",
    ),
    _rule("install-script", "warn", "a package script runs at install", "install", r'"(?:pre|post)?install"\s*+:\s*+"'),
    _rule(
        "unpinned-code",
        "warn",
        "fetches code that can change from one day to the next",
        "raw.githubusercontent gist",
        r"https?://raw\.githubusercontent\.com/\S{1,200}/(?:main|master)/\S{1,200}\.(?:sh|py|js|ps1|rb)\b",
        r"https?://gist\.github(?:usercontent)?\.com/\S{1,200}/raw\b",
    ),
)


# The scan.

MAX_FILE = 1 << 18
MAX_TOTAL = 1 << 21
"""Nobody would read more than this either; files beyond it are listed instead of scanned."""
PER_RULE = 5
BLOB = 240


class ScanFinding(Struct, frozen=True, kw_only=True):
    """One finding, and where it is."""

    rule: str
    severity: Severity
    message: str
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{self.severity}: {where}: {self.message} [{self.rule}]"


_ORDERS = compile_lazily(
    r"https?://|\b(?:run|execute|send|read|curl|upload|ignore|forward|instruction|assistant|agent|must|always)\b", re.I
)
_BASE64 = compile_lazily(rf"[A-Za-z0-9+/]{{{BLOB},}}={{0,2}}")
_HEX = compile_lazily(rf"(?:\\x[0-9a-fA-F]{{2}}){{40,}}|\b[0-9a-fA-F]{{{2 * BLOB},}}\b")
_PADDED = compile_lazily(r"\S[ \t\u00a0\u3000]{120,}\S")
_TAGS = compile_lazily("[\U000e0000-\U000e007f]")
_MAGIC = (
    (b"\x7fELF", "a compiled Linux program"),
    (b"MZ", "a compiled Windows program"),
    (b"\xcf\xfa\xed\xfe", "a compiled macOS program"),
    (b"\xca\xfe\xba\xbe", "a compiled macOS or Java program"),
    (b"\xfe\xed\xfa\xcf", "a compiled macOS program"),
    (b"!<arch>", "a compiled library"),
)
_ARCHIVES = ((b"PK\x03\x04", "zip"), (b"\x1f\x8b", "gzip"), (b"7z\xbc\xaf", "7z"), (b"Rar!", "rar"))
_OFFICE = (".docx", ".xlsx", ".pptx", ".odt", ".ods", ".epub")
_RUNNABLE = tuple(".exe .scr .msi .lnk .pyc .pyo .so .dylib .dll .jar .pkg .dmg .app .hta".split())
_LOADED_BY_OTHERS = (".npmrc", ".pypirc", "sitecustomize.py", "usercustomize.py", ".envrc", "conftest.py", ".mcp.json")


def scan_files(files: Mapping[str, bytes], report: Report = no_report) -> tuple[ScanFinding, ...]:
    """All findings in `files`, by path; the critical ones first."""
    found: list[ScanFinding] = []
    left = MAX_TOTAL
    for path, data in reported(sorted(files.items()), "looking through", report):
        found += _kind(path, data)
        if b"\0" in data[:8_192]:
            continue
        part = data[: min(left, MAX_FILE)]
        left -= len(part)
        found += _text(path, part.decode("utf-8", "replace"))
        if len(part) < len(data):
            message = f"is longer than what is looked through ({len(part):,} of {len(data):,} bytes)"
            found.append(ScanFinding(rule="too-long", severity="warn", message=message, file=path))
    return tuple(sorted(found, key=lambda finding: (finding.severity != "critical", finding.file, finding.line)))


def _text(path: str, text: str) -> Iterator[ScanFinding]:
    yield from _words(path, text)
    yield from _shapes(path, text)
    folded = fold(text)
    lowered = folded.lower()
    for rule in RULES:
        if any(word in lowered for word in rule.needs):
            yield from _matches(rule, path, folded)


def _kind(path: str, data: bytes) -> Iterator[ScanFinding]:
    name = path.rpartition("/")[2].lower()
    for magic, what in _MAGIC:
        if data.startswith(magic):
            yield ScanFinding(rule="compiled", severity="critical", message=f"is {what}; nobody can read it", file=path)
            return
    if name.endswith(_RUNNABLE):
        yield ScanFinding(rule="compiled", severity="critical", message="is a kind of file that runs unread", file=path)
    elif name in _LOADED_BY_OTHERS:
        yield ScanFinding(
            rule="loaded-unasked", severity="warn", message="is read by other programs unasked", file=path
        )
    elif any(data.startswith(magic) for magic, _ in _ARCHIVES) and not name.endswith(_OFFICE):
        yield ScanFinding(rule="nested-archive", severity="warn", message="is an archive inside the skill", file=path)


def _words(path: str, text: str) -> Iterator[ScanFinding]:
    """The findings of the general text scan."""
    for found in scan(text):
        harmless = "rm" in found.detail or not path.endswith((".md", ".txt"))
        if found.kind == "pattern" and found.severity == "warn" and harmless:
            continue  # a script may say `rm -rf build`; prose that gives orders is different
        yield ScanFinding(
            rule=f"text-{found.kind}", severity=found.severity, message=found.detail, file=path, line=found.line
        )


def _shapes(path: str, text: str) -> Iterator[ScanFinding]:
    if found := _TAGS.search(text):
        yield _at("invisible-text", "critical", "hides text in invisible characters", path, text, found.start())
    if path.endswith(".md"):
        for start, inside in _comments(text):
            if _ORDERS.search(inside):
                yield _at("hidden-comment", "warn", "gives orders in a comment people do not see", path, text, start)
                break
    for found in _BASE64.finditer(text):
        before = text[max(0, found.start() - 40) : found.start()]
        if "data:image/" not in before and "data:font/" not in before and not path.endswith((".svg", ".pem", ".lock")):
            yield _at("encoded-blob", "warn", "holds a long encoded blob", path, text, found.start())
            break
    if found := _HEX.search(text):
        yield _at("encoded-blob", "warn", "holds a long run of hexadecimal digits", path, text, found.start())
    if found := _PADDED.search(text):
        yield _at("padded-line", "warn", "pushes text out of sight with a long gap", path, text, found.start())


def _comments(text: str) -> Iterator[tuple[int, str]]:
    end = 0
    while (start := text.find("<!--", end)) >= 0:
        end = text.find("-->", start + 4)
        if end < 0:
            return
        yield start, text[start + 4 : min(end, start + 4_000)]


def _matches(rule: AttackRule, path: str, text: str) -> Iterator[ScanFinding]:
    for number, found in enumerate(rule.pattern.finditer(text)):
        if number >= PER_RULE:
            return
        start = found.start() + len(found.group()) - len(found.group().lstrip())
        yield _at(rule.name, rule.severity, rule.message, path, text, start)


def _at(rule: str, severity: Severity, message: str, path: str, text: str, at: int) -> ScanFinding:
    return ScanFinding(rule=rule, severity=severity, message=message, file=path, line=text.count("\n", 0, at) + 1)
