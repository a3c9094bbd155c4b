-- One transaction; clients that start together take turns (IF NOT EXISTS alone can fail when two create at once).
BEGIN;
SELECT pg_advisory_xact_lock(8390042714201347);
CREATE SCHEMA IF NOT EXISTS {schema};

-- Versions of registers. A cache would hand out numbers that fall from session to session.
CREATE SEQUENCE IF NOT EXISTS {schema}.version AS bigint CACHE 1;

-- Tokens: a sequence that is not logged (where the server can do that), and above it the epoch, a row that is. A crash resets the
-- sequence, and the next epoch sets it far above whatever it gave out.
CREATE {unlogged}SEQUENCE IF NOT EXISTS {schema}.draw AS bigint CACHE 1;
CREATE TABLE IF NOT EXISTS {schema}.epoch (
    single boolean PRIMARY KEY CHECK (single),
    number bigint NOT NULL
);

-- Sets the sequence to the epoch that is committed, unless it is there. One at a time: a sequence must not be set back.
CREATE OR REPLACE FUNCTION {schema}.begin_epoch_1() RETURNS void LANGUAGE plpgsql AS $lockyard$
DECLARE
    base bigint;
BEGIN
    SELECT e.number << {epoch_bits} INTO STRICT base FROM {schema}.epoch e FOR UPDATE;
    PERFORM setval({draw}, base) FROM {schema}.draw d WHERE d.last_value < base;
END $lockyard$;

-- A number for a token, for those whose connection has not looked at the sequence: refused when an epoch is due. A domain, since its
-- check is cheaper than the call of a function that looks.
DO $lockyard$ BEGIN
    CREATE DOMAIN {schema}.token AS bigint CONSTRAINT lockyard_epoch_goes_on
        CHECK (VALUE >> {epoch_bits} <> 0 AND VALUE & ((1::bigint << {epoch_bits}) - 1) < 1::bigint << ({epoch_bits} - 1));
EXCEPTION WHEN duplicate_object THEN NULL;
END $lockyard$;

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
-- Whether somebody may wait. Whoever queues writes it, so that an UPDATE that wants to find nobody waiting and comes to the row
-- meanwhile looks at it again: a place that was taken after the statement's snapshot is not missed.
ALTER TABLE {schema}.lease ADD COLUMN IF NOT EXISTS queued boolean NOT NULL DEFAULT false;

-- Lease mode: who waits, and on which channel it listens (empty: on none, it asks). An entry that is not refreshed is dead.
-- Entries of a name are only touched by who has locked the name's row in lease.
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

-- Fenced registers, in every mode. A version is a number of a sequence, so that none comes twice, not even after its row
-- was deleted by hand.
CREATE TABLE IF NOT EXISTS {schema}.register (
    namespace text NOT NULL,
    name text NOT NULL,
    value bytea NOT NULL,
    token bigint NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (namespace, name)
);
ALTER TABLE {schema}.register ADD COLUMN IF NOT EXISTS written_at timestamptz;

-- Writes a register, unless the token is less than the stored one or the version is not the expected one (0: no row).
--
-- outcome: 0 written, and the number is the new version; 1 stale, and it is the stored token; 2 conflict, and it is the
-- stored version. The row is locked before it is judged: what is told is what is stored.
CREATE OR REPLACE FUNCTION {schema}.write_register_2(
    a_namespace text, a_name text, a_value bytea, a_token bigint, a_expected bigint, OUT outcome integer, OUT number bigint
) LANGUAGE plpgsql AS $lockyard$
DECLARE
    stored record;
BEGIN
    LOOP
        SELECT r.token, r.version INTO stored FROM {schema}.register r
            WHERE r.namespace = a_namespace AND r.name = a_name FOR NO KEY UPDATE;
        EXIT WHEN FOUND;
        IF a_expected <> 0 THEN
            outcome := 2;
            number := 0;
            RETURN;
        END IF;
        INSERT INTO {schema}.register (namespace, name, value, token, version, written_at)
            VALUES (a_namespace, a_name, a_value, a_token, nextval({version}), clock_timestamp())
            ON CONFLICT DO NOTHING RETURNING version INTO number;
        IF FOUND THEN
            outcome := 0;
            RETURN;
        END IF;
        -- Another has made the row meanwhile.
    END LOOP;
    IF a_token < stored.token THEN
        outcome := 1;
        number := stored.token;
    ELSIF stored.version <> a_expected THEN
        outcome := 2;
        number := stored.version;
    ELSE
        outcome := 0;
        UPDATE {schema}.register r
            SET value = a_value, token = a_token, version = nextval({version}), written_at = clock_timestamp()
            WHERE r.namespace = a_namespace AND r.name = a_name RETURNING r.version INTO number;
    END IF;
END $lockyard$;

-- Takes a name, or a place in its queue (channel is not null), in one round trip. A free name that has a row is usually taken by the
-- statement that calls this otherwise.
--
-- outcome: 1 held by the claim, 0 busy or queued. number: the token; of a claim that is queued, that of who holds the name. rest: how
-- long the present lease still runs, in milliseconds.
-- The clock is read, and the token drawn, after the row was waited for: never through EXCLUDED.
CREATE OR REPLACE FUNCTION {schema}.take_lease_6(
    a_namespace text, a_name text, a_owner text, a_ttl bigint, a_label text, a_origin text,
    a_channel text, a_listener_pid integer, a_listener_started bigint,
    OUT outcome integer, OUT number bigint, OUT rest bigint, OUT ahead bigint
) LANGUAGE plpgsql AS $lockyard$
DECLARE
    a_lease CONSTANT interval := a_ttl * interval '1 millisecond';
    queues CONSTANT boolean := a_channel IS NOT NULL;
    stored record;
    now timestamptz;
BEGIN
    outcome := 0;
    ahead := 0;
    -- The name has a row, and it is free or ours. A row that does not match is neither locked nor written.
    -- Locked first: an UPDATE that waits for a row that was only locked keeps the number and the time of before the wait.
    SELECT l.owner, l.token, l.expires_at INTO stored FROM {schema}.lease l
        WHERE l.namespace = a_namespace AND l.name = a_name
        AND (l.owner = a_owner OR l.expires_at <= clock_timestamp()) FOR NO KEY UPDATE;
    IF FOUND THEN
        now := clock_timestamp();
        IF stored.owner = a_owner AND stored.expires_at > now AND stored.token IS NOT NULL THEN
            number := stored.token;
            UPDATE {schema}.lease l SET expires_at = now + a_lease, label = a_label, origin = a_origin
                WHERE l.namespace = a_namespace AND l.name = a_name;
        ELSE
            number := nextval({draw})::{schema}.token;
            UPDATE {schema}.lease l SET token = number, since = now, owner = a_owner, expires_at = now + a_lease,
                label = a_label, origin = a_origin WHERE l.namespace = a_namespace AND l.name = a_name;
        END IF;
        outcome := 1;
        rest := a_ttl;
        IF queues THEN
            DELETE FROM {schema}.waiter w WHERE w.namespace = a_namespace AND w.name = a_name AND w.owner = a_owner;
        END IF;
        RETURN;
    END IF;
    IF NOT queues THEN
        SELECT extract(epoch FROM l.expires_at - clock_timestamp()) * 1000 INTO rest FROM {schema}.lease l
            WHERE l.namespace = a_namespace AND l.name = a_name AND l.expires_at > clock_timestamp();
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    -- No row, or one that has become free meanwhile, or one that is held and has to be locked while we queue.
    LOOP
        INSERT INTO {schema}.lease AS l (namespace, name, owner, token, expires_at, since, label, origin, queued)
            -- Without a number: one that is drawn here is old when others took and gave back the name, and a collection
            -- removed its row, between the drawing and the insert.
            VALUES (a_namespace, a_name, a_owner, NULL,
                clock_timestamp() + a_lease, clock_timestamp(), a_label, a_origin,
                EXISTS (SELECT FROM {schema}.waiter w WHERE w.namespace = a_namespace AND w.name = a_name))
        ON CONFLICT (namespace, name) DO UPDATE SET
            token = CASE WHEN l.owner = a_owner AND l.expires_at > clock_timestamp() AND l.token IS NOT NULL
                THEN l.token ELSE nextval({draw})::{schema}.token END,
            since = CASE WHEN l.owner = a_owner AND l.expires_at > clock_timestamp()
                THEN l.since ELSE clock_timestamp() END,
            owner = a_owner, expires_at = clock_timestamp() + a_lease, label = a_label, origin = a_origin
        WHERE l.owner = a_owner OR l.expires_at <= clock_timestamp()
        RETURNING l.token INTO number;
        IF NOT FOUND THEN
            EXIT;
        ELSIF number IS NOT NULL THEN
            outcome := 1;
            rest := a_ttl;
            IF queues THEN
                DELETE FROM {schema}.waiter w
                    WHERE w.namespace = a_namespace AND w.name = a_name AND w.owner = a_owner;
            END IF;
            RETURN;
        END IF;
        -- The row is new: it is ours now, without a number yet.
    END LOOP;
    -- The row is locked from here to the end, held by another.
    SELECT extract(epoch FROM l.expires_at - clock_timestamp()) * 1000, l.token INTO rest, number FROM {schema}.lease l
        WHERE l.namespace = a_namespace AND l.name = a_name;
    IF NOT queues THEN
        RETURN;
    END IF;
    -- A place in the queue that is lost in a crash is taken again by its owner.
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE {schema}.lease l SET queued = true WHERE l.namespace = a_namespace AND l.name = a_name AND NOT l.queued;
    DELETE FROM {schema}.waiter w
        WHERE w.namespace = a_namespace AND w.name = a_name AND w.expires_at < clock_timestamp() AND w.owner <> a_owner;
    INSERT INTO {schema}.waiter AS w (namespace, name, owner, ttl, channel, listener_pid, listener_started,
            label, origin, expires_at)
        VALUES (a_namespace, a_name, a_owner, a_lease, a_channel, a_listener_pid, a_listener_started,
            a_label, a_origin, clock_timestamp() + a_lease)
    ON CONFLICT (namespace, name, owner) DO UPDATE SET channel = a_channel, listener_pid = a_listener_pid,
        listener_started = a_listener_started, expires_at = clock_timestamp() + a_lease;
    SELECT count(*) INTO ahead FROM {schema}.waiter w WHERE w.namespace = a_namespace AND w.name = a_name
        AND w.place < (SELECT m.place FROM {schema}.waiter m
            WHERE m.namespace = a_namespace AND m.name = a_name AND m.owner = a_owner);
END $lockyard$;

-- Hands a name whose row the caller has locked to the first waiter that lives. Answers 2.
CREATE OR REPLACE FUNCTION {schema}.hand_over_1(a_namespace text, a_name text) RETURNS integer LANGUAGE plpgsql AS $lockyard$
DECLARE
    next record;
    number bigint;
BEGIN
    LOOP
        DELETE FROM {schema}.waiter w WHERE w.namespace = a_namespace AND w.name = a_name AND w.place =
                (SELECT min(m.place) FROM {schema}.waiter m WHERE m.namespace = a_namespace AND m.name = a_name)
            RETURNING w.* INTO next;
        EXIT WHEN NOT FOUND;
        IF next.expires_at > clock_timestamp() AND (next.channel = '' OR EXISTS (
            -- A role that may not see when a process started cannot tell it from a later one of its number.
            SELECT FROM pg_stat_get_activity(next.listener_pid) a WHERE
                coalesce((extract(epoch FROM a.backend_start) * 1000000)::bigint = next.listener_started, true))) THEN
            UPDATE {schema}.lease l SET owner = next.owner, token = nextval({draw})::{schema}.token, since = clock_timestamp(),
                expires_at = clock_timestamp() + next.ttl, label = next.label, origin = next.origin,
                queued = EXISTS (SELECT FROM {schema}.waiter w WHERE w.namespace = a_namespace AND w.name = a_name)
                WHERE l.namespace = a_namespace AND l.name = a_name RETURNING l.token INTO number;
            IF next.channel <> '' THEN
                PERFORM pg_notify(next.channel, next.owner || ' ' || number);
            END IF;
            RETURN 2;
        END IF;
    END LOOP;
    UPDATE {schema}.lease l SET queued = false WHERE l.namespace = a_namespace AND l.name = a_name AND l.queued;
    RETURN 2;
END $lockyard$;

-- Undoes what an owner has on a name, be it a hold or a place in the queue. A hold is usually given back by the statement that calls
-- this otherwise.
--
-- Answers 2 for a hold, 1 for a place, 0 for nothing. The waiters are read by a statement of its own after the row is locked: one
-- that queued before is seen, one that queues later waits for the row and finds the name free.
CREATE OR REPLACE FUNCTION {schema}.give_lease_3(a_namespace text, a_name text, a_owner text) RETURNS integer
LANGUAGE plpgsql AS $lockyard$
DECLARE
    holder record;
    answer integer := 0;
BEGIN
    SELECT l.owner, l.expires_at > clock_timestamp() AS live INTO holder FROM {schema}.lease l
        WHERE l.namespace = a_namespace AND l.name = a_name FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    DELETE FROM {schema}.waiter w WHERE w.namespace = a_namespace AND w.name = a_name AND w.owner = a_owner;
    IF FOUND THEN
        answer := 1;
    END IF;
    IF holder.owner <> a_owner THEN
        RETURN answer;
    END IF;
    IF holder.live THEN
        answer := 2;
        UPDATE {schema}.lease l SET expires_at = '-infinity' WHERE l.namespace = a_namespace AND l.name = a_name;
    END IF;
    PERFORM {schema}.hand_over_1(a_namespace, a_name);
    RETURN answer;
END $lockyard$;
COMMIT;
