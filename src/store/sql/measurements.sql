-- Measurements of a kind, for one model or all, for one agent or all; oldest first.
SELECT at, agent, model, figure
FROM measurements
WHERE kind = ?1 AND (?2 IS NULL OR model = ?2) AND (?3 IS NULL OR agent = ?3)
ORDER BY id
