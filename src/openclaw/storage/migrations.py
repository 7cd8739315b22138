"""The schema migrations of the state database, append-only."""

from openclaw.storage.database import Migration

_STATEMENTS: tuple[tuple[str, ...], ...] = (
    (  # 1
        """CREATE TABLE sessions (
            session_key TEXT PRIMARY KEY, agent_id TEXT NOT NULL, session_id TEXT NOT NULL,
            title TEXT NOT NULL DEFAULT '', status TEXT NOT NULL DEFAULT 'idle', created_at BIGINT NOT NULL,
            updated_at BIGINT NOT NULL, model TEXT NOT NULL DEFAULT '', provider TEXT NOT NULL DEFAULT '',
            messages BIGINT NOT NULL DEFAULT 0, input_tokens BIGINT NOT NULL DEFAULT 0,
            output_tokens BIGINT NOT NULL DEFAULT 0, cache_read_tokens BIGINT NOT NULL DEFAULT 0,
            cache_write_tokens BIGINT NOT NULL DEFAULT 0, context_tokens BIGINT NOT NULL DEFAULT 0,
            cost_usd DOUBLE PRECISION, settings TEXT NOT NULL DEFAULT '{}'
        )""",
        "CREATE INDEX sessions_updated ON sessions (updated_at)",
        """CREATE TABLE transcripts (
            session_id TEXT PRIMARY KEY, session_key TEXT NOT NULL, agent_id TEXT NOT NULL,
            bytes BIGINT NOT NULL DEFAULT 0
        )""",
        "CREATE INDEX transcripts_key ON transcripts (session_key)",
        """CREATE TABLE runs (
            run_id TEXT PRIMARY KEY, session_key TEXT NOT NULL, session_id TEXT NOT NULL,
            status TEXT NOT NULL, started_at BIGINT NOT NULL, ended_at BIGINT,
            provider TEXT NOT NULL DEFAULT '', model TEXT NOT NULL DEFAULT '',
            stop_reason TEXT NOT NULL DEFAULT '', error TEXT NOT NULL DEFAULT '',
            input_tokens BIGINT NOT NULL DEFAULT 0, output_tokens BIGINT NOT NULL DEFAULT 0,
            cache_read_tokens BIGINT NOT NULL DEFAULT 0, cache_write_tokens BIGINT NOT NULL DEFAULT 0,
            cost_usd DOUBLE PRECISION
        )""",
        "CREATE INDEX runs_session ON runs (session_key, started_at)",
    ),
    (  # 2
        """CREATE TABLE prompts (
            run_id TEXT PRIMARY KEY, session_key TEXT NOT NULL, created_at BIGINT NOT NULL,
            report TEXT NOT NULL, sections TEXT NOT NULL
        )""",
        "CREATE INDEX prompts_session ON prompts (session_key, created_at)",
        "CREATE TABLE prompt_texts (hash TEXT PRIMARY KEY, text TEXT NOT NULL)",
    ),
    (  # 3
        """CREATE TABLE inputs (
            run_id TEXT PRIMARY KEY, session_key TEXT NOT NULL, state TEXT NOT NULL, request TEXT NOT NULL,
            accepted_at BIGINT NOT NULL, updated_at BIGINT NOT NULL, attempts BIGINT NOT NULL DEFAULT 0,
            outcome TEXT
        )""",
        "CREATE INDEX inputs_state ON inputs (state, accepted_at)",
    ),
    (  # 4
        """CREATE TABLE devices (
            device_id TEXT PRIMARY KEY, public_key TEXT NOT NULL, roles TEXT NOT NULL, scopes TEXT NOT NULL,
            platform TEXT NOT NULL DEFAULT '', device_family TEXT NOT NULL DEFAULT '',
            display_name TEXT NOT NULL DEFAULT '', client_id TEXT NOT NULL DEFAULT '',
            client_mode TEXT NOT NULL DEFAULT '', approved_via TEXT NOT NULL, created_at BIGINT NOT NULL,
            approved_at BIGINT NOT NULL, last_seen_at BIGINT NOT NULL
        )""",
        """CREATE TABLE device_requests (
            request_id TEXT PRIMARY KEY, device_id TEXT NOT NULL, public_key TEXT NOT NULL,
            role TEXT NOT NULL, scopes TEXT NOT NULL, platform TEXT NOT NULL DEFAULT '',
            device_family TEXT NOT NULL DEFAULT '', display_name TEXT NOT NULL DEFAULT '',
            client_id TEXT NOT NULL DEFAULT '', client_mode TEXT NOT NULL DEFAULT '',
            remote_ip TEXT NOT NULL DEFAULT '', reason TEXT NOT NULL, created_at BIGINT NOT NULL,
            seen_at BIGINT NOT NULL
        )""",
        "CREATE UNIQUE INDEX device_requests_device ON device_requests (device_id, role)",
        """CREATE TABLE device_tokens (
            token_hash TEXT PRIMARY KEY, device_id TEXT NOT NULL, role TEXT NOT NULL, scopes TEXT NOT NULL,
            issued_at BIGINT NOT NULL
        )""",
        "CREATE INDEX device_tokens_device ON device_tokens (device_id, role, issued_at)",
    ),
    (  # 5
        """CREATE TABLE cron_jobs (
            job_id TEXT PRIMARY KEY, job TEXT NOT NULL, name TEXT NOT NULL, enabled BIGINT NOT NULL,
            next_run_at BIGINT, updated_at BIGINT NOT NULL, revision BIGINT NOT NULL DEFAULT 1
        )""",
        "CREATE INDEX cron_jobs_due ON cron_jobs (enabled, next_run_at)",
        """CREATE TABLE cron_fires (
            job_id TEXT NOT NULL, slot BIGINT NOT NULL, run_id TEXT NOT NULL, job TEXT NOT NULL,
            following BIGINT, status TEXT NOT NULL, owner TEXT NOT NULL, lease_until BIGINT NOT NULL,
            fired_at BIGINT NOT NULL, ended_at BIGINT, delivery TEXT NOT NULL DEFAULT 'not-requested',
            delivery_error TEXT NOT NULL DEFAULT '', result TEXT, PRIMARY KEY (job_id, slot)
        )""",
        "CREATE UNIQUE INDEX cron_fires_run ON cron_fires (run_id)",
        "CREATE INDEX cron_fires_status ON cron_fires (status, lease_until)",
        "CREATE INDEX cron_fires_fired ON cron_fires (fired_at)",
        """CREATE TABLE system_events (
            event_id TEXT PRIMARY KEY, session_key TEXT NOT NULL, text TEXT NOT NULL,
            created_at BIGINT NOT NULL, taken_by TEXT NOT NULL DEFAULT ''
        )""",
        "CREATE INDEX system_events_session ON system_events (session_key, taken_by, created_at)",
        """CREATE TABLE heartbeats (
            agent_id TEXT PRIMARY KEY, last_at BIGINT NOT NULL, last_text TEXT NOT NULL DEFAULT '',
            last_text_at BIGINT NOT NULL DEFAULT 0, seen TEXT NOT NULL DEFAULT '{}'
        )""",
    ),
    (  # 6
        """CREATE TABLE model_calls (
            call_id TEXT PRIMARY KEY, run_id TEXT NOT NULL, session_key TEXT NOT NULL,
            session_id TEXT NOT NULL, agent_id TEXT NOT NULL, background BIGINT NOT NULL DEFAULT 0,
            attempt BIGINT NOT NULL, at BIGINT NOT NULL, ended_at BIGINT, day TEXT NOT NULL,
            provider TEXT NOT NULL, model TEXT NOT NULL, profile TEXT NOT NULL DEFAULT '',
            state TEXT NOT NULL, reason TEXT NOT NULL DEFAULT '', error TEXT NOT NULL DEFAULT '',
            input_tokens BIGINT NOT NULL DEFAULT 0, output_tokens BIGINT NOT NULL DEFAULT 0,
            cache_read_tokens BIGINT NOT NULL DEFAULT 0, cache_write_tokens BIGINT NOT NULL DEFAULT 0,
            input_cost DOUBLE PRECISION, output_cost DOUBLE PRECISION, cache_read_cost DOUBLE PRECISION,
            cache_write_cost DOUBLE PRECISION, cost_usd DOUBLE PRECISION, estimate_usd DOUBLE PRECISION,
            worst_usd DOUBLE PRECISION, measured BIGINT NOT NULL DEFAULT 1
        )""",
        "CREATE INDEX model_calls_run ON model_calls (run_id, attempt)",
        "CREATE INDEX model_calls_day ON model_calls (day, agent_id)",
        "CREATE INDEX model_calls_session ON model_calls (session_key, at)",
        "CREATE INDEX model_calls_at ON model_calls (at)",
        """CREATE TABLE call_records (
            call_id TEXT PRIMARY KEY, run_id TEXT NOT NULL, place BIGINT NOT NULL, hour BIGINT NOT NULL,
            request TEXT NOT NULL, stream TEXT NOT NULL, wire TEXT NOT NULL
        )""",
        "CREATE INDEX call_records_run ON call_records (run_id, place)",
        "CREATE INDEX call_records_hour ON call_records (hour)",
        """CREATE TABLE record_blobs (
            hash TEXT PRIMARY KEY, seen_hour BIGINT NOT NULL, bytes BIGINT NOT NULL, data TEXT NOT NULL
        )""",
        "CREATE INDEX record_blobs_hour ON record_blobs (seen_hour, bytes)",
    ),
    (  # 7
        """CREATE TABLE subagents (
            run_id TEXT PRIMARY KEY, parent_key TEXT NOT NULL, child_key TEXT NOT NULL, state TEXT NOT NULL,
            record TEXT NOT NULL, created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL
        )""",
        "CREATE INDEX subagents_parent ON subagents (parent_key, created_at)",
    ),
    ("ALTER TABLE system_events ADD COLUMN origins TEXT NOT NULL DEFAULT ''",),  # 8
    ("ALTER TABLE sessions ADD COLUMN last_interaction BIGINT NOT NULL DEFAULT 0",),  # 9
    (  # 10
        # Whose hands a row in work is in; the rows of before are in nobody's.
        "ALTER TABLE inputs ADD COLUMN owner TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE subagents ADD COLUMN owner TEXT NOT NULL DEFAULT ''",
        "CREATE INDEX subagents_updated ON subagents (updated_at)",
        "UPDATE cron_fires SET owner = ''",
        "DROP INDEX cron_fires_status",
        "ALTER TABLE cron_fires DROP COLUMN lease_until",
        "CREATE INDEX cron_fires_status ON cron_fires (status, delivery)",
    ),
    (  # 11
        """CREATE TABLE outbox (
            message_id TEXT PRIMARY KEY,
            channel TEXT NOT NULL,
            account TEXT NOT NULL,
            chat TEXT NOT NULL,
            thread TEXT NOT NULL DEFAULT '',
            position BIGINT NOT NULL,
            run_id TEXT NOT NULL DEFAULT '',
            session_key TEXT NOT NULL DEFAULT '',
            body TEXT NOT NULL,
            pieces TEXT NOT NULL DEFAULT '',
            receipts TEXT NOT NULL DEFAULT '[]',
            state TEXT NOT NULL,
            attempts BIGINT NOT NULL DEFAULT 0,
            doubled BIGINT NOT NULL DEFAULT 0,
            next_at BIGINT NOT NULL,
            error TEXT NOT NULL DEFAULT '',
            created_at BIGINT NOT NULL,
            updated_at BIGINT NOT NULL,
            owner TEXT NOT NULL DEFAULT ''
        )""",
        "CREATE INDEX outbox_state ON outbox (state, position)",
        """CREATE TABLE heard (
            channel TEXT NOT NULL,
            account TEXT NOT NULL,
            event_id TEXT NOT NULL,
            at BIGINT NOT NULL,
            PRIMARY KEY (channel, account, event_id)
        )""",
        "CREATE INDEX heard_at ON heard (at)",
        """CREATE TABLE channel_events (
            channel TEXT NOT NULL,
            account TEXT NOT NULL,
            event_id TEXT NOT NULL,
            chat TEXT NOT NULL,
            position BIGINT NOT NULL,
            body TEXT NOT NULL,
            due_at BIGINT NOT NULL,
            PRIMARY KEY (channel, account, event_id)
        )""",
        "CREATE INDEX channel_events_position ON channel_events (position)",
        """CREATE TABLE channel_cursors (
            channel TEXT NOT NULL,
            account TEXT NOT NULL,
            cursor TEXT NOT NULL,
            updated_at BIGINT NOT NULL,
            PRIMARY KEY (channel, account)
        )""",
    ),
    (  # 12
        # The message that shows an answer while it is written: the answer is finished by editing it.
        """CREATE TABLE previews (
            run_id TEXT NOT NULL,
            channel TEXT NOT NULL,
            account TEXT NOT NULL,
            chat TEXT NOT NULL,
            thread TEXT NOT NULL DEFAULT '',
            message_id TEXT NOT NULL,
            created_at BIGINT NOT NULL,
            PRIMARY KEY (run_id, channel, account, chat, thread)
        )""",
        # What was said in a group since the assistant last spoke.
        """CREATE TABLE group_history (
            channel TEXT NOT NULL,
            account TEXT NOT NULL,
            chat TEXT NOT NULL,
            position BIGINT NOT NULL,
            body TEXT NOT NULL,
            at BIGINT NOT NULL,
            PRIMARY KEY (channel, account, chat, position)
        )""",
        "CREATE INDEX group_history_at ON group_history (at)",
        # Where the person of a conversation was last heard.
        """CREATE TABLE last_routes (
            session_key TEXT PRIMARY KEY,
            address TEXT NOT NULL,
            current BIGINT NOT NULL,
            at BIGINT NOT NULL
        )""",
        # Which process speaks for an account.
        """CREATE TABLE channel_leases (
            name TEXT PRIMARY KEY,
            owner TEXT NOT NULL DEFAULT '',
            taken_at BIGINT NOT NULL
        )""",
        # The first waiting message of each conversation is found without reading the others.
        "CREATE INDEX outbox_position ON outbox (position)",
        "CREATE INDEX outbox_waiting ON outbox (channel, account, chat, thread, position) "
        "WHERE state IN ('pending', 'sending', 'unsure')",
        "CREATE INDEX channel_events_chat ON channel_events (channel, account, chat, position)",
    ),
    (  # 13
        # Questions to the owner, and the calls that wait for the answers.
        """CREATE TABLE approvals (
            approval_id TEXT PRIMARY KEY,
            question TEXT NOT NULL,
            state TEXT NOT NULL,
            decision TEXT NOT NULL DEFAULT '',
            answer TEXT NOT NULL DEFAULT '',
            answered_by TEXT NOT NULL DEFAULT '',
            answered_at BIGINT NOT NULL DEFAULT 0,
            owner TEXT NOT NULL DEFAULT '',
            created_at BIGINT NOT NULL
        )""",
    ),
    # 14: why an event shall be told at once; empty when it can wait for the next turn.
    ("ALTER TABLE system_events ADD COLUMN wakes TEXT NOT NULL DEFAULT ''",),
    (  # 15
        # Transcripts where many gateways share a server; on one machine they are files.
        """CREATE TABLE transcript_files (
            file_id TEXT PRIMARY KEY,
            agent_id TEXT NOT NULL,
            name TEXT NOT NULL,
            lines BIGINT NOT NULL,
            size BIGINT NOT NULL,
            digest TEXT NOT NULL
        )""",
        "CREATE UNIQUE INDEX transcript_files_name ON transcript_files (agent_id, name)",
        """CREATE TABLE transcript_lines (
            file_id TEXT NOT NULL,
            seq BIGINT NOT NULL,
            line TEXT NOT NULL,
            PRIMARY KEY (file_id, seq)
        )""",
        # Small documents of a home, likewise.
        """CREATE TABLE documents (
            name TEXT PRIMARY KEY,
            revision BIGINT NOT NULL,
            body TEXT NOT NULL,
            digest TEXT NOT NULL,
            updated_at BIGINT NOT NULL
        )""",
    ),
    (  # 16
        # What a recorded call shares with no other is in its own row.
        "ALTER TABLE call_records ADD COLUMN bytes BIGINT NOT NULL DEFAULT 0",
        "DROP INDEX call_records_hour",
        "CREATE INDEX call_records_hour ON call_records (hour, bytes)",
        # Nothing is looked up by these, and every turn wrote a page of each.
        "DROP INDEX sessions_updated",
        "DROP INDEX transcripts_key",
        "DROP INDEX runs_session",
    ),
)

STATE_MIGRATIONS = tuple(Migration(version, statements) for version, statements in enumerate(_STATEMENTS, 1))
