-- Renames the table in a database created under its former name.
DO $$
BEGIN
  IF to_regclass('set_aside') IS NOT NULL THEN
    ALTER TABLE set_aside RENAME TO dead_letter;
    ALTER TABLE dead_letter RENAME COLUMN set_aside_at TO dead_lettered_at;
    ALTER INDEX set_aside_key RENAME TO dead_letter_key;
    ALTER INDEX set_aside_xid RENAME TO dead_letter_xid;
  END IF;
END $$;
