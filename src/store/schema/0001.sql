-- The ledger, version 1. Times are milliseconds since 1970.

-- Id of this ledger, in one row.
CREATE TABLE ledger (
    id TEXT NOT NULL
) STRICT;

-- Sessions, their holders, and the ends of their event chains.
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    fence INTEGER NOT NULL,
    holder TEXT,
    since INTEGER,
    seen INTEGER,
    events INTEGER NOT NULL DEFAULT 0,
    head BLOB NOT NULL DEFAULT x''
) STRICT;
CREATE INDEX sessions_held ON sessions (name) WHERE holder IS NOT NULL;

-- Events. A body is JSON, or compressed JSON if it is long. `before` is the hash of the previous event of the session;
-- `hash` covers all columns of the row and `before`.
CREATE TABLE events (
    sequence INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (id),
    number INTEGER NOT NULL,
    at INTEGER NOT NULL,
    body ANY NOT NULL,
    before BLOB NOT NULL,
    hash BLOB NOT NULL,
    UNIQUE (session, number)
) STRICT;

-- Texts by the hash of their bytes, compressed if that makes them shorter than `size`.
CREATE TABLE blobs (
    number INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    size INTEGER NOT NULL,
    bytes BLOB NOT NULL
) STRICT;

CREATE TRIGGER events_are_not_changed BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'events are never changed'); END;
CREATE TRIGGER events_are_not_removed BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'events are never removed'); END;
CREATE TRIGGER blobs_are_not_changed BEFORE UPDATE ON blobs
BEGIN SELECT RAISE(ABORT, 'texts are never changed'); END;
CREATE TRIGGER blobs_are_not_removed BEFORE DELETE ON blobs
BEGIN SELECT RAISE(ABORT, 'texts are never removed'); END;

-- Index derived from the events, so that lists and budgets need not read all events. Ids grow as turns are started.
CREATE TABLE turns (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (id),
    turn INTEGER NOT NULL,
    mode TEXT NOT NULL,
    agent TEXT NOT NULL,
    model TEXT,
    started INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    outcome TEXT,
    replied INTEGER NOT NULL,
    verdict TEXT,
    fault TEXT,
    tokens INTEGER NOT NULL,
    micro_dollars INTEGER NOT NULL,
    milliseconds INTEGER NOT NULL,
    UNIQUE (session, turn)
) STRICT;

CREATE TABLE calls (
    turn INTEGER NOT NULL REFERENCES turns (id),
    number INTEGER NOT NULL,
    run TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    micro_dollars INTEGER NOT NULL,
    answered INTEGER NOT NULL,
    PRIMARY KEY (turn, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE totals (
    scope TEXT NOT NULL,
    name TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    micro_dollars INTEGER NOT NULL,
    turns INTEGER NOT NULL,
    milliseconds INTEGER NOT NULL,
    PRIMARY KEY (scope, name)
) STRICT, WITHOUT ROWID;
