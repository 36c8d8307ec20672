-- The time that a segment speaks of, such as "tomorrow", read when it is written. Null: none, or
-- the segment is older than these columns (python -m serving mentions).
ALTER TABLE segment ADD COLUMN IF NOT EXISTS mentions_from timestamptz;
ALTER TABLE segment ADD COLUMN IF NOT EXISTS mentions_to timestamptz;
