-- All events of a session: name of the session.
SELECT at, body
FROM events
WHERE session = (SELECT id FROM sessions WHERE name = ?1)
ORDER BY number
