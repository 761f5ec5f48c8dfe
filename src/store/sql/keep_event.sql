-- Inserts an event: session, number, time, body, hash of the previous event, hash of this event.
INSERT INTO events (session, number, at, body, before, hash)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
