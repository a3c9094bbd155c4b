-- One transaction; clients that start together take turns (IF NOT EXISTS alone can fail when two create at once).
BEGIN;
SELECT pg_advisory_xact_lock(8390042714201347);
CREATE SCHEMA IF NOT EXISTS {schema};

-- A cache would hand out numbers that fall from session to session.
CREATE SEQUENCE IF NOT EXISTS {schema}.token AS bigint CACHE 1;

-- Row mode: a row for each name, locked and never changed.
CREATE TABLE IF NOT EXISTS {schema}.row (
    namespace text NOT NULL,
    name text NOT NULL,
    PRIMARY KEY (namespace, name)
);

-- Lease mode: the last holder of each name. A row stays when its lease is over, so that tokens go on rising.
CREATE TABLE IF NOT EXISTS {schema}.lease (
    namespace text NOT NULL,
    name text NOT NULL,
    owner text NOT NULL,
    token bigint,
    expires_at timestamptz NOT NULL,
    since timestamptz NOT NULL,
    label text,
    origin text,
    PRIMARY KEY (namespace, name)
) WITH (fillfactor = 50);

-- Lease mode: who waits, and on which channel it listens. An entry that is not refreshed is dead.
CREATE TABLE IF NOT EXISTS {schema}.waiter (
    place bigint GENERATED ALWAYS AS IDENTITY,
    namespace text NOT NULL,
    name text NOT NULL,
    owner text NOT NULL,
    ttl interval NOT NULL,
    channel text NOT NULL,
    listener_pid integer NOT NULL,
    listener_started bigint NOT NULL,
    label text,
    origin text,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (namespace, name, place),
    UNIQUE (namespace, name, owner)
);
COMMIT;
