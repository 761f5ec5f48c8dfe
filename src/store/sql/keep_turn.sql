-- Inserts or updates a turn. Mode, agent, model and start time never change.
INSERT INTO turns (
    session, turn, mode, agent, model, started, calls,
    outcome, replied, verdict, fault, tokens, micro_dollars, milliseconds
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
ON CONFLICT (session, turn) DO UPDATE SET
    calls = ?7, outcome = ?8, replied = ?9, verdict = ?10, fault = ?11,
    tokens = ?12, micro_dollars = ?13, milliseconds = ?14
RETURNING id
