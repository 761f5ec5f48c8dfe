-- Hash of one event: name of the session, number.
SELECT e.hash
FROM events AS e
JOIN sessions AS s ON s.id = e.session
WHERE s.name = ?1 AND e.number = ?2
