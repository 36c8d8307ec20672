-- Facts that are read out of turns: a third projection of the log, with its own dead letters.

ALTER TABLE projection_state
  DROP CONSTRAINT IF EXISTS projection_state_projection_check,
  ADD CONSTRAINT projection_state_projection_check
    CHECK (projection IN ('embedding', 'graph', 'extraction'));
-- The name of the old check is that of the table when the database was created.
DO $$
DECLARE
  old name;
BEGIN
  FOR old IN SELECT conname FROM pg_constraint
              WHERE conrelid = 'dead_letter'::regclass AND contype = 'c'
  LOOP
    EXECUTE format('ALTER TABLE dead_letter DROP CONSTRAINT %I', old);
  END LOOP;
END $$;
ALTER TABLE dead_letter ADD CONSTRAINT dead_letter_projection_check
  CHECK (projection IN ('embedding', 'graph', 'extraction'));

-- The turns that were read, each with the hash of the text that was read.
CREATE TABLE extraction (
  key       bigint PRIMARY KEY REFERENCES segment ON DELETE CASCADE,
  text_hash bytea NOT NULL
);
