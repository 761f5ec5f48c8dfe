-- The newest events, each with its link and the link before: number of events.
SELECT s.name, e.number, e.at, e.body, e.before, e.hash, coalesce(b.hash, x''), l.hash
FROM events AS e
JOIN sessions AS s ON s.id = e.session
LEFT JOIN links AS l ON l.sequence = e.sequence
LEFT JOIN links AS b ON b.sequence = e.sequence - 1
ORDER BY e.sequence DESC
LIMIT ?1
