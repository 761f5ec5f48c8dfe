-- Measurements of a kind, of one model or all, of one agent or all, the oldest first.
SELECT at, agent, model, figure
FROM measurements
WHERE kind = ?1 AND (?2 IS NULL OR model = ?2) AND (?3 IS NULL OR agent = ?3)
ORDER BY id
