-- The session that a lease is good for, and where the chain of its events ends: name, fence.
SELECT id, events, head
FROM sessions
WHERE name = ?1 AND fence = ?2 AND holder IS NOT NULL
