"""What the PostgreSQL engine itself keeps in the database: connections, leases, long messages."""

# The row of a connection that ended is deleted a day after it was seen: one that is missing wrote nothing since.
_WRITTEN = """CREATE OR REPLACE FUNCTION store_written(writer TEXT, number BIGINT, result BIGINT[]) RETURNS VOID
    LANGUAGE plpgsql AS $$
    BEGIN
        UPDATE store_connections SET written = number, changed = result, seen_at = now()
            WHERE id = writer AND NOT given_up;
        IF NOT FOUND THEN RAISE 'this connection was given up'; END IF;
    END $$"""
ENGINE_SCHEMA = (
    # One row for each connection that writes: the number of its last write, and what that changed.
    """CREATE TABLE store_connections (
        id TEXT PRIMARY KEY, pid INTEGER NOT NULL, started TIMESTAMPTZ NOT NULL,
        seen_at TIMESTAMPTZ NOT NULL DEFAULT now(), written BIGINT NOT NULL DEFAULT 0,
        changed BIGINT[] NOT NULL DEFAULT '{}', given_up BOOLEAN NOT NULL DEFAULT false
    ) WITH (fillfactor = 50)""",
    """CREATE TABLE store_leases (
        name TEXT PRIMARY KEY, epoch BIGINT NOT NULL, connection TEXT NOT NULL, holder TEXT NOT NULL,
        taken_at TIMESTAMPTZ NOT NULL
    ) WITH (fillfactor = 50)""",
    "CREATE TABLE store_messages (id TEXT PRIMARY KEY, body TEXT NOT NULL, at TIMESTAMPTZ NOT NULL DEFAULT now())",
    "CREATE INDEX store_messages_at ON store_messages (at)",
    # Whoever takes a lease over changes its row, and so waits for the writes that have passed here.
    """CREATE FUNCTION store_fence(lease TEXT, mine BIGINT) RETURNS VOID LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM 1 FROM store_leases WHERE name = lease AND epoch = mine FOR SHARE;
        IF NOT FOUND THEN RAISE 'lease lost: %', lease; END IF;
    END $$""",
    _WRITTEN,
    """CREATE FUNCTION store_write(
        writer TEXT, number BIGINT, lease TEXT, mine BIGINT, statements TEXT[], params TEXT[]
    ) RETURNS BIGINT[] LANGUAGE plpgsql AS $$
    DECLARE
        statement TEXT;
        rows BIGINT;
        result BIGINT[] := '{}';
    BEGIN
        IF lease <> '' THEN PERFORM store_fence(lease, mine); END IF;
        FOREACH statement IN ARRAY statements LOOP
            EXECUTE format(statement, VARIADIC params);
            GET DIAGNOSTICS rows = ROW_COUNT;
            result := result || rows;
        END LOOP;
        PERFORM store_written(writer, number, result);
        RETURN result;
    END $$""",
    _WRITTEN,  # for those who have the first one, which did not say when
    "ALTER TABLE store_connections ADD COLUMN process TEXT NOT NULL DEFAULT ''",
)
VERSIONS = "CREATE TABLE IF NOT EXISTS store_version (part TEXT PRIMARY KEY, version BIGINT NOT NULL)"
ENGINE_VERSION = len(ENGINE_SCHEMA)

GIVE_UP = "UPDATE store_connections SET given_up = true WHERE id = $1 RETURNING written, changed"


def quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
