-- Every event in the order in which it was recorded, with its link.
SELECT e.number, s.name, e.hash, l.hash
FROM events AS e
LEFT JOIN links AS l ON l.sequence = e.sequence
LEFT JOIN sessions AS s ON s.id = e.session
ORDER BY e.sequence
