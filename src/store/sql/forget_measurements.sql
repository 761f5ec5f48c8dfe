-- Removes all but the newest measurements of an agent, a model and a kind.
DELETE FROM measurements
WHERE kind = ?1 AND model IS ?2 AND agent = ?3 AND id <= (
    SELECT id FROM measurements
    WHERE kind = ?1 AND model IS ?2 AND agent = ?3
    ORDER BY id DESC
    LIMIT 1 OFFSET ?4
)
