-- Keeps an event: session, number, at, body, hash of the one before, its own hash.
INSERT INTO events (session, number, at, body, before, hash)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
