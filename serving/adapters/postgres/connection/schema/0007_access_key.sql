-- Bearer keys of callers. Only the hash of a secret is stored.
CREATE TABLE access_key (
  id          text COLLATE "C" PRIMARY KEY,
  secret_hash bytea NOT NULL,  -- SHA-256
  roles       text[] NOT NULL,
  tenant      text COLLATE "C",  -- a name; NULL: all tenants. The tenant need not exist yet.
  note        text NOT NULL,
  created_at  timestamptz NOT NULL,
  expires_at  timestamptz,
  revoked_at  timestamptz
);
