-- Inserts a call, or updates it when it is answered.
INSERT INTO calls (turn, number, run, tokens, micro_dollars, answered)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (turn, number) DO UPDATE SET answered = ?6
