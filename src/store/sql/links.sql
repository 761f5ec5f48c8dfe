-- All events in the order in which they were recorded, each with its link.
SELECT e.number, s.name, e.hash, l.hash
FROM events AS e
LEFT JOIN links AS l ON l.sequence = e.sequence
LEFT JOIN sessions AS s ON s.id = e.session
ORDER BY e.sequence
