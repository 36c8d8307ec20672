-- Erased items, so that they can be erased again after the restore of an older backup
-- (writes/tombstones.py). The hash shows neither the tenant nor the id; the key is of this database,
-- so that hashes of two databases cannot be compared.
ALTER TABLE meta ADD COLUMN tombstone_key bytea NOT NULL
  DEFAULT sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8'));

CREATE TABLE tombstone (
  hash      bytea PRIMARY KEY,
  erased_at timestamptz NOT NULL DEFAULT now()
);
