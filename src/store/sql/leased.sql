-- Session of a valid lease, and the end of its event chain: name, fence.
SELECT id, events, head
FROM sessions
WHERE name = ?1 AND fence = ?2 AND holder IS NOT NULL
