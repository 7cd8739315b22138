"""Protected places: files that decide what may run, who is let in, or what a program does at its start. Pure."""

from msgspec import Struct

from openclaw.core.text import compile_lazily


class ProtectedPlaces(Struct, frozen=True, kw_only=True):
    """Where this installation keeps what protects it; absolute paths without links."""

    home: str = ""
    state: str = ""
    config: str = ""
    programs: tuple[str, ...] = ()
    """The directories of PATH."""
    open: tuple[str, ...] = ()
    """Directories inside the state that are not part of it: workspaces, files of sandboxes."""


def is_below(path: str, root: str) -> bool:
    return path != root and path.startswith(root.rstrip("/") + "/")


_STATE = (
    (compile_lazily(r"exec-approvals\.json"), "the list of what may run without a question"),
    (compile_lazily(r"openclaw\.json"), "the configuration of the assistant"),
    (compile_lazily(r"credentials/|agents/[^/]+/agent/|\.env$"), "credentials, and who was let in"),
    (compile_lazily(r"agents/[^/]+/sessions/"), "transcripts of conversations"),
    (compile_lazily(r"hooks/"), "hooks, which run by themselves"),
    (compile_lazily(r"extensions/|plugins/"), "plugins, which run by themselves"),
    (compile_lazily(r"skills"), "skills, which the assistant follows"),
    (compile_lazily(r"mcp-tools\.json"), "the accepted tools of MCP servers"),
)
_SHELL = frozenset(
    ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin .zlogout "
    ".kshrc .mkshrc .cshrc .tcshrc .login .inputrc .xprofile .xinitrc .xsession .xsessionrc .pam_environment".split()
)
_RUNNING = frozenset(
    ".gitconfig .npmrc .yarnrc .yarnrc.yml .condarc .curlrc .wgetrc .vimrc .exrc .emacs .tmux.conf .screenrc .gdbinit "
    ".lldbinit .pythonrc .pythonstartup .psqlrc .sqliterc .mailrc .muttrc .netrc .Rprofile .Renviron .irbrc .pryrc "
    ".gemrc .hgrc .nanorc .lesskey .ackrc .perldb .envrc".split()
)
_ANYWHERE = (
    (
        compile_lazily(
            r"/\.git/(?:.+/)?(?:hooks/|config$|config\.worktree$|info/attributes$)|/\.git/commondir$|/\.husky/"
        ),
        "what git runs by itself",
    ),
    (compile_lazily(r"/\.ssh/"), "keys and settings of ssh"),
    (compile_lazily(r"/\.gnupg/"), "keys of GnuPG"),
    (compile_lazily(r"/autostart/|/Library/Launch(?:Agents|Daemons)/"), "what starts with the desktop"),
    (
        compile_lazily(r"/systemd/(?:user|system)/|/etc/(?:init\.d|systemd|cron|rc\.)"),
        "services that start by themselves",
    ),
    (compile_lazily(r"^/var/spool/cron/"), "scheduled commands"),
    (compile_lazily(r"^/etc/"), "the configuration of the system"),
    (compile_lazily(r"^/(?:usr|bin|sbin|lib|lib64|boot|nix|opt)/"), "programs of the system"),
    (
        compile_lazily(
            r"/(?:\.mozilla|\.librewolf|\.config/(?:google-chrome|chromium|BraveSoftware|microsoft-edge|vivaldi)[^/]*"
            r"|Library/Application Support/(?:Google/Chrome|Firefox|Chromium))/"
        ),
        "a profile of a browser",
    ),
    (
        compile_lazily(
            r"/\.config/(?:fish|environment\.d|git|pip|nvim|direnv|mise|uv|npm|yarn|zsh|bash|tmux|kitty|alacritty|i3|sway"
            r"|hypr|containers|(?:Code|Cursor|VSCodium|zed)(?= |/))[^/]*/|/\.cargo/(?:config|bin/)|/\.pip/|/\.emacs\.d/"
            r"|/\.vim/"
            r"|/\.gradle/|/\.m2/settings\.xml$|/\.direnvrc$|/\.ipython/|/\.jupyter/|/\.julia/config/|/\.oh-my-zsh/|/\.docker/"
            r"|/\.kube/|/\.node_modules/|/\.local/share/(?:applications|dbus-1|systemd|nvim)/"
            r"|/(?:site|user)customize\.py$|-packages/[^/]+\.pth$"
        ),
        "settings that make a program run something",
    ),
)


def name_place(path: str, places: ProtectedPlaces) -> str:
    """What the protected place at `path` is, in words for the owner; empty where anybody may write."""
    if path == places.config:
        return "the configuration of the assistant"
    folder, _, name = path.rpartition("/")
    for pattern, what in _ANYWHERE:
        if pattern.search(path) and not (places.home and path.startswith("/opt/") and places.home.startswith("/opt/")):
            return what
    for root in places.open:
        if _inside(path, root):
            return ""
    if places.state and _inside(path, places.state):
        inside = path[len(places.state) :].lstrip("/")
        return next((what for pattern, what in _STATE if pattern.match(inside)), "the assistant's own state")
    if name in _SHELL:
        return "what your shell runs at its start"
    if name in _RUNNING and (folder == places.home or not places.home):
        return "settings that make a program run something"
    if folder in places.programs or (places.home and folder in (f"{places.home}/bin", f"{places.home}/.local/bin")):
        return "a program on the PATH"
    return ""


def _inside(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")
