-- Turns, with the columns that `tables::read_turn` reads. Callers append a condition.
SELECT
    t.id, s.name, t.turn, t.mode, t.agent, t.model, t.started, t.calls,
    t.outcome, t.replied, t.verdict, t.fault, t.tokens, t.micro_dollars, t.milliseconds
FROM turns AS t
JOIN sessions AS s ON s.id = t.session
