-- Leases a session to a holder: name, holder, now. Every lease gets a new fence.
INSERT INTO sessions (name, fence, holder, since, seen)
VALUES (?1, 1, ?2, ?3, ?3)
ON CONFLICT (name) DO UPDATE SET fence = fence + 1, holder = ?2, since = ?3, seen = ?3
RETURNING fence
