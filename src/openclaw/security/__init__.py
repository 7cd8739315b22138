"""Limits on what a run may do, whatever the model wants.

`gates` decides on every tool call, from `tool_policy` (which tools remain), `exec_policy` and `shell` (which commands
run), `approvals` (what people allowed) and `labels` (what untrusted text may cause). `run_labels` tracks that text
through a run, with `file_labels`, `note_marks` and `external` (wrapping). Beside them: `audit` and `audit_log`, `undo`,
`redaction`, `scan`, `install_policy`, `install_scan`, and `sandboxes`.

Start with `labels`, then `gates`.
"""
