-- Names have another key (name_key in domain/items/text.py): what is stored under the former keys is
-- computed anew by the service (writes/name_keys.py).

-- The NAME_KEY_VERSION of the keys in all rows.
ALTER TABLE meta ADD COLUMN name_key_version int NOT NULL DEFAULT 0;

-- When a closing went, since it was by a fact about another name that only had the same key.
ALTER TABLE fact ADD COLUMN reopened_at timestamptz;
