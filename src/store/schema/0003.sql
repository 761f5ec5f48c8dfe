-- The ledger, version 3: one hash chain over the events of all sessions, in the order in which they were recorded. Each
-- row holds a hash of the event's hash and the previous link, so removing an event or a session breaks all later links.
CREATE TABLE links (
    sequence INTEGER PRIMARY KEY REFERENCES events (sequence),
    hash BLOB NOT NULL
) STRICT;

CREATE TRIGGER links_are_not_changed BEFORE UPDATE ON links
BEGIN SELECT RAISE(ABORT, 'links are never changed'); END;
CREATE TRIGGER links_are_not_removed BEFORE DELETE ON links
BEGIN SELECT RAISE(ABORT, 'links are never removed'); END;
