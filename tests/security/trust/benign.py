"""Honest skills of the kinds people really write. None of them may give an alarm."""


def _skill(name: str, description: str, body: str) -> dict[str, bytes]:
    return {"SKILL.md": f"---\nname: {name}\ndescription: {description}\n---\n\n# {name}\n\n{body}\n".encode()}


CASES: dict[str, dict[str, bytes]] = {
    name: _skill(name, description, body)
    for name, description, body in (
        ("github", "Work with GitHub through gh.", "`gh pr list --limit 20`\n`gh issue view 12 --comments`"),
        ("weather", "Weather without a key.", 'curl -s "wttr.in/London?format=3"'),
        ("tmux", "Drive tmux sessions.", "tmux new-session -d -s work\ntmux send-keys -t work 'make test' Enter"),
        ("ffmpeg", "Cut and convert video.", "ffmpeg -i in.mov -vf scale=1280:-2 -c:v libx264 out.mp4"),
        ("csv", "Look through CSV files.", "Use `python3 {baseDir}/scripts/csvstat.py file.csv`."),
        ("docker", "Manage containers.", "docker compose up -d\ndocker logs --tail 100 web"),
        ("kubernetes", "Look at a cluster.", "kubectl get pods -A\nkubectl describe pod NAME"),
        ("postgres", "Ask a database.", 'psql "$DATABASE_URL" -c "select 1"'),
        (
            "notion",
            "Write Notion pages.",
            'curl https://api.notion.com/v1/pages -H "Authorization: Bearer $NOTION_KEY"',
        ),
        (
            "slack",
            "Send Slack messages.",
            "POST https://slack.com/api/chat.postMessage with the token from SLACK_TOKEN.",
        ),
        ("todo", "Keep a list of things to do.", "Append to `TODO.md` in the workspace, one line each."),
        ("translate", "Translate text.", "Keep names and code as they are. Ask when a word has two meanings."),
        ("summarise", "Summarise long documents.", "Three sentences, then bullets. Quote figures exactly."),
        ("proofread", "Correct spelling and grammar.", "Do not change the author's voice."),
        ("recipes", "Plan meals.", "Ask about allergies first. Give quantities for four."),
        ("calendar", "Read the calendar.", "Use `icalBuddy -n eventsToday+7` on macOS."),
        ("mail", "Triage mail with himalaya.", "himalaya envelope list --page-size 20\nNever send without asking."),
        ("spotify", "Play music.", "spogo play 'artist name'"),
        ("hue", "Switch lights.", "openhue set light 'Desk' --on --brightness 40"),
        ("ocr", "Read text in pictures.", "tesseract page.png - -l eng+deu"),
        ("pdf", "Read PDF files.", "pdftotext -layout in.pdf - | head -100"),
        ("latex", "Build LaTeX.", "latexmk -pdf -interaction=nonstopmode main.tex; rm -rf build"),
        ("rust", "Work on Rust code.", "cargo fmt && cargo clippy -- -D warnings && cargo test"),
        ("node", "Work on Node projects.", "npm ci && npm test. Use `npx prettier --check .` before a commit."),
        ("python", "Work on Python projects.", "uv sync && uv run pytest -q"),
        (
            "terraform",
            "Plan infrastructure.",
            "terraform plan -out plan.bin; show it, and wait for a yes before apply.",
        ),
        (
            "aws-costs",
            "Look at cloud costs.",
            "aws ce get-cost-and-usage --time-period Start=2026-01-01,End=2026-02-01",
        ),
        ("security-review", "Review code for weak spots.", "Look for injection, missing checks, secrets in code."),
        ("commit", "Write commit messages.", "Imperative, under 72 characters, no full stop."),
        ("changelog", "Write change logs.", "Group by Added, Changed, Fixed. Newest first."),
        ("jq", "Query JSON.", "jq '.items[] | {id, name}' data.json"),
        ("sqlite", "Query SQLite files.", "sqlite3 -readonly app.db '.schema'"),
        ("backup", "Back the workspace up.", "restic backup ~/Documents --exclude-caches"),
        ("image-resize", "Resize pictures.", "magick in.png -resize 50% out.png"),
        ("rss", "Read feeds.", "Fetch the feed with web_fetch and list the ten newest titles with dates."),
        ("maps", "Find places.", 'curl "https://nominatim.openstreetmap.org/search?q=Rome&format=json"'),
        ("stocks", "Look up prices.", "Say that prices may be 15 minutes old."),
        ("homebrew", "Install programs on a Mac.", "brew install NAME; list what changed with brew list --versions."),
        ("ssh-hosts", "Work on other machines.", "ssh build@host 'uptime'. Use the names in the user's notes."),
        (
            "中文写作",
            "帮助用户润色中文文章。当用户要求修改、润色或翻译中文时使用。",
            "保持原意,语言自然。先读全文,再逐段修改。",
        ),
        ("emoji", "Answer with 👩‍👩‍👧 and 🏳️‍🌈 where asked.", "Family: 👨‍👩‍👧‍👦. Use them sparingly."),
        ("api-client", "Write API clients.", "Read the key with `os.environ['SERVICE_KEY']`; never print it."),
        (
            "release",
            "Cut a release.",
            "git tag -s v1.2.3 && git push --tags. Attach the files with `gh release create`.",
        ),
    )
}
CASES["with-scripts"] = {
    **_skill("with-scripts", "Counts words.", "Run `python3 {baseDir}/scripts/count.py FILE`."),
    "scripts/count.py": b"import sys\nfrom pathlib import Path\n\nprint(len(Path(sys.argv[1]).read_text().split()))\n",
    "references/words.md": b"# Words\n\n- one\n- two\n",
    "assets/logo.png": b"\x89PNG\r\n\x1a\n" + bytes(100),
    "assets/icon.svg": b"<svg xmlns='http://www.w3.org/2000/svg'><path d='M0 0'/></svg>",
    "LICENSE": b"MIT License\n\nPermission is hereby granted, free of charge, to any person\n",
}
