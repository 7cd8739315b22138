"""The tables of the pairing book, as the state database's next migration."""

from openclaw.store.db import Migration

STATEMENTS = (
    """CREATE TABLE devices (
        device_id TEXT PRIMARY KEY,
        public_key TEXT NOT NULL,
        roles TEXT NOT NULL,
        scopes TEXT NOT NULL,
        platform TEXT NOT NULL DEFAULT '',
        device_family TEXT NOT NULL DEFAULT '',
        display_name TEXT NOT NULL DEFAULT '',
        client_id TEXT NOT NULL DEFAULT '',
        client_mode TEXT NOT NULL DEFAULT '',
        approved_via TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        approved_at BIGINT NOT NULL,
        last_seen_at BIGINT NOT NULL
    )""",
    """CREATE TABLE device_requests (
        request_id TEXT PRIMARY KEY,
        device_id TEXT NOT NULL,
        public_key TEXT NOT NULL,
        role TEXT NOT NULL,
        scopes TEXT NOT NULL,
        platform TEXT NOT NULL DEFAULT '',
        device_family TEXT NOT NULL DEFAULT '',
        display_name TEXT NOT NULL DEFAULT '',
        client_id TEXT NOT NULL DEFAULT '',
        client_mode TEXT NOT NULL DEFAULT '',
        remote_ip TEXT NOT NULL DEFAULT '',
        reason TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        seen_at BIGINT NOT NULL
    )""",
    "CREATE UNIQUE INDEX device_requests_device ON device_requests (device_id, role)",
    """CREATE TABLE device_tokens (
        token_hash TEXT PRIMARY KEY,
        device_id TEXT NOT NULL,
        role TEXT NOT NULL,
        scopes TEXT NOT NULL,
        issued_at BIGINT NOT NULL
    )""",
    "CREATE INDEX device_tokens_device ON device_tokens (device_id, role, issued_at)",
)

MIGRATIONS = (Migration(1, STATEMENTS),)
