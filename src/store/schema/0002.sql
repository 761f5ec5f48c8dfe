-- The ledger, version 2: measurements. They are not events: only the newest of each agent, model and kind are kept.
-- A figure is JSON.
CREATE TABLE measurements (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    agent TEXT NOT NULL,
    model TEXT,
    kind TEXT NOT NULL,
    figure TEXT NOT NULL
) STRICT;
CREATE INDEX measurements_of ON measurements (kind, model, agent, id);
