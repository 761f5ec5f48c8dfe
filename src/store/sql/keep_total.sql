-- Inserts or updates the usage of a scope.
INSERT INTO totals (scope, name, tokens, micro_dollars, turns, milliseconds)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (scope, name) DO UPDATE SET tokens = ?3, micro_dollars = ?4, turns = ?5, milliseconds = ?6
