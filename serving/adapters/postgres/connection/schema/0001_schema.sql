-- The schema of Trivium, for PostgreSQL 15 to 18. Requires the extensions btree_gin
-- and btree_gist.

CREATE EXTENSION IF NOT EXISTS btree_gin;
CREATE EXTENSION IF NOT EXISTS btree_gist;

-- A single row about the whole database.
CREATE TABLE meta (
  one            boolean PRIMARY KEY DEFAULT true CHECK (one),
  schema_version int NOT NULL,
  -- pg_control_system(). Another value means that the database was restored into another cluster,
  -- with other transaction ids; the log is then rebuilt in a new epoch.
  cluster_id     bigint NOT NULL,
  log_epoch      uuid NOT NULL DEFAULT gen_random_uuid(),
  -- The pg_snapshot up to which the log is compacted; a reader behind it must start over.
  compacted      text NOT NULL DEFAULT '3:3:',
  -- The last model that had a vector for every row; any other model may lack some.
  complete_model smallint,
  -- The last transaction that erased items or made them sensitive; 0 before the first. Files that
  -- were written from an older position of the log may hold what it removed. Those transactions
  -- update this row one after the other, so a snapshot that includes the last includes all of them.
  erased_xid     xid8 NOT NULL DEFAULT '0',
  -- Of this database, so that hashes of erased items of two databases cannot be compared.
  tombstone_key  bytea NOT NULL
    DEFAULT sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8'))
);

CREATE TABLE tenant (
  id                 int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name               text COLLATE "C" NOT NULL UNIQUE,
  text_search_config text NOT NULL,  -- a name: pg_upgrade rejects columns of type regconfig
  time_zone          text NOT NULL,  -- for requests that name none; empty is UTC
  names_erased       int NOT NULL DEFAULT 0  -- how often names were deleted from `entity`
);

-- Shared by segments and facts, so that one integer identifies an item.
CREATE SEQUENCE item_key AS bigint;

CREATE TABLE segment (
  key           bigint PRIMARY KEY DEFAULT nextval('item_key'),
  tenant_id     int NOT NULL REFERENCES tenant,
  id            text COLLATE "C" NOT NULL CHECK (octet_length(id) BETWEEN 1 AND 256),
  text          text NOT NULL,
  title         text NOT NULL,
  keywords      text[] NOT NULL,
  kind          text NOT NULL,
  speaker       text NOT NULL,
  session       text NOT NULL,
  event_time    timestamptz NOT NULL,
  mentions      tstzmultirange,  -- times that the text speaks of, such as "tomorrow"; NULL: none
  importance    float8 NOT NULL,
  sensitive     boolean NOT NULL,
  labels        jsonb NOT NULL,
  entities      text[] NOT NULL,
  extracted     boolean NOT NULL,  -- whether the service found the entities
  entity        text NOT NULL,
  content_hash  bytea NOT NULL,  -- of all that the client sent; equal if unchanged
  text_hash     bytea NOT NULL,  -- of the text that is embedded
  written_xid   xid8 NOT NULL DEFAULT pg_current_xact_id(),
  created_at    timestamptz NOT NULL DEFAULT now(),
  updated_at    timestamptz NOT NULL DEFAULT now(),
  expires_at    timestamptz,  -- NULL: never
  version       bigint NOT NULL DEFAULT 1,
  tags          text[] NOT NULL,  -- segment_terms (domain/questions/filters.py), and the week ("w:")
  tsv           tsvector NOT NULL,  -- made by words/tsvector.py
  dl            int NOT NULL,       -- distinct words, without function words
  UNIQUE (tenant_id, id)
);

-- Without a pending list (fastupdate), which during writes costs every search 3 to 4 ms.
CREATE INDEX segment_words ON segment USING gin (tenant_id, tags, tsv) WITH (fastupdate = off);
CREATE INDEX segment_sensitive ON segment (tenant_id, id) WHERE sensitive;
-- Partial, so that lexical searches cannot use it: their generic plans would prefer it to the word
-- index for any time range.
CREATE INDEX segment_event_time ON segment (tenant_id, event_time) WHERE NOT sensitive;
-- For questions about a day: few segments speak of one.
CREATE INDEX segment_mentions ON segment USING gist (tenant_id, mentions)
  WHERE mentions IS NOT NULL;
-- For the erasure of what has expired, and for the facts whose evidence expires.
CREATE INDEX segment_expiry ON segment (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX segment_expiring ON segment (tenant_id, id) INCLUDE (expires_at)
  WHERE expires_at IS NOT NULL;
-- Finds the turns before and after another.
CREATE INDEX segment_turn ON segment (tenant_id, session, event_time, created_at, id)
  WHERE session <> '' AND NOT sensitive;

-- pg_stats.most_common_elems of `tsv` holds the document frequencies. No statistics of columns that
-- no condition reads: ANALYZE would copy their values, those of sensitive rows too, and keep them
-- beyond an erasure.
ALTER TABLE segment
  ALTER tsv SET STATISTICS 1000,
  ALTER text SET STATISTICS 0,
  ALTER title SET STATISTICS 0,
  ALTER keywords SET STATISTICS 0,
  ALTER speaker SET STATISTICS 0,
  ALTER session SET STATISTICS 0,
  ALTER labels SET STATISTICS 0,
  ALTER entities SET STATISTICS 0,
  ALTER entity SET STATISTICS 0;
ALTER TABLE segment SET (autovacuum_analyze_scale_factor = 0.05,
                         autovacuum_vacuum_insert_scale_factor = 0.1);

-- The entities that each segment names, by name key.
CREATE VIEW mention AS
  SELECT segment.tenant_id, segment.key, segment.id, substr(tag, 3) AS name_key
    FROM segment, unnest(segment.tags) AS tag
   WHERE starts_with(tag, 'e:');

CREATE TABLE fact (
  key           bigint PRIMARY KEY DEFAULT nextval('item_key'),
  tenant_id     int NOT NULL REFERENCES tenant,
  id            text COLLATE "C" NOT NULL CHECK (octet_length(id) BETWEEN 1 AND 256),
  subject       text NOT NULL,
  relation      text NOT NULL,
  object        text NOT NULL,
  sentence      text NOT NULL,
  valid_from    timestamptz,
  valid_to      timestamptz,
  recorded_at   timestamptz NOT NULL,
  retracted_at  timestamptz,
  evidence      text[] COLLATE "C" NOT NULL,
  weight        float8 NOT NULL,
  sensitive     boolean NOT NULL,
  closes        text[] COLLATE "C" NOT NULL,
  single_valued boolean NOT NULL,
  entity_keys   text[] NOT NULL,  -- of subject and object, by name key
  topic         bytea NOT NULL,  -- hash of the keys of subject and relation
  content_hash  bytea NOT NULL,
  text_hash     bytea NOT NULL,
  written_xid   xid8 NOT NULL DEFAULT pg_current_xact_id(),
  created_at    timestamptz NOT NULL DEFAULT now(),
  updated_at    timestamptz NOT NULL DEFAULT now(),
  expires_at    timestamptz,
  version       bigint NOT NULL DEFAULT 1,
  -- Parallel arrays with one element per closing, maintained by writes/closings.py.
  closed_by            text[] COLLATE "C" NOT NULL DEFAULT '{}',
  closed_at            timestamptz[] NOT NULL DEFAULT '{}',
  closing_recorded_at  timestamptz[] NOT NULL DEFAULT '{}',
  closing_retracted_at timestamptz[] NOT NULL DEFAULT '{}',
  UNIQUE (tenant_id, id)
);
CREATE INDEX fact_evidence ON fact USING gin (tenant_id, evidence) WITH (fastupdate = off);
CREATE INDEX fact_entities ON fact USING gin (tenant_id, entity_keys) WITH (fastupdate = off);
CREATE INDEX fact_topic ON fact (tenant_id, topic, coalesce(valid_from, recorded_at));
-- Partial, since few facts close others; the rest costs nothing.
CREATE INDEX fact_closes ON fact USING gin (tenant_id, closes)
  WITH (fastupdate = off) WHERE closes <> '{}';
CREATE INDEX fact_closed_by ON fact USING gin (tenant_id, closed_by)
  WITH (fastupdate = off) WHERE closed_by <> '{}';
CREATE INDEX fact_expiry ON fact (expires_at) WHERE expires_at IS NOT NULL;
ALTER TABLE fact
  ALTER subject SET STATISTICS 0,
  ALTER relation SET STATISTICS 0,
  ALTER object SET STATISTICS 0,
  ALTER sentence SET STATISTICS 0;

-- The entity names used by visible segments and facts, in their first spelling.
CREATE TABLE entity (
  tenant_id int NOT NULL REFERENCES tenant,
  name_key  text COLLATE "C" NOT NULL,
  name      text NOT NULL,
  added_xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
  PRIMARY KEY (tenant_id, name_key)
);
CREATE INDEX entity_added ON entity (tenant_id, added_xid);

CREATE TABLE embedding_model (
  id          smallint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  fingerprint text NOT NULL UNIQUE,
  -- Vectors are stored inline, so each must fit into a page.
  dimension   int NOT NULL CHECK (dimension BETWEEN 1 AND 4000)
);

-- One vector per window of an item's text, as little-endian float16. Window -1 is a segment
-- together with the turn before it. The row of a turn of one window has the states of its
-- content words too, in int8, after the four bytes that identify their axes.
CREATE TABLE embedding (
  model_id     smallint NOT NULL REFERENCES embedding_model,
  key          bigint NOT NULL,  -- of a segment or a fact
  window_no    smallint NOT NULL,
  text_hash    bytea NOT NULL,
  vector       bytea NOT NULL,
  previous_key bigint,  -- of the turn before; NULL in vectors of the text alone
  token_states bytea,
  PRIMARY KEY (model_id, key, window_no)
);
-- A full read of inline vectors takes half the CPU of TOASTed ones.
ALTER TABLE embedding ALTER vector SET STORAGE PLAIN;
ALTER TABLE embedding ALTER token_states SET STORAGE EXTERNAL;
CREATE INDEX embedding_key ON embedding (key);
CREATE INDEX embedding_previous ON embedding (previous_key) WHERE previous_key IS NOT NULL;

-- How often an item was returned.
CREATE TABLE access_count (
  key        bigint PRIMARY KEY,
  tenant_id  int NOT NULL,
  shown      bigint NOT NULL,
  last_shown timestamptz NOT NULL
) WITH (fillfactor = 50);
-- Finds the latest without a scan of the tenant. Updates are therefore not heap-only; they run once
-- a second, off the read path.
CREATE INDEX access_count_last_shown ON access_count (tenant_id, last_shown);

-- Erased items, so that they can be erased again after the restore of an older backup
-- (writes/tombstones.py). The hash shows neither the tenant nor the id.
CREATE TABLE tombstone (
  hash      bytea PRIMARY KEY,
  erased_at timestamptz NOT NULL DEFAULT now()
);

-- API keys of callers. Only the hash of a secret is stored.
CREATE TABLE api_key (
  id          text COLLATE "C" PRIMARY KEY,
  secret_hash bytea NOT NULL,  -- SHA-256
  roles       text[] NOT NULL,
  tenant      text COLLATE "C",  -- a name; NULL: all tenants. The tenant need not exist yet.
  note        text NOT NULL,
  created_at  timestamptz NOT NULL,
  expires_at  timestamptz,
  revoked_at  timestamptz
);

-- Who changed what: counts, and no texts or ids of items, since an entry outlasts them.
CREATE TABLE audit_entry (
  number  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at      timestamptz NOT NULL DEFAULT now(),
  caller  text NOT NULL,
  rpc     text NOT NULL,
  tenant  text COLLATE "C" NOT NULL,  -- a name, also of a tenant that is erased; empty: none
  created int NOT NULL,
  updated int NOT NULL,
  erased  int NOT NULL,
  key_id  text NOT NULL  -- of the API key that was made or revoked; empty: none
);
CREATE INDEX audit_entry_tenant ON audit_entry (tenant, number);
CREATE INDEX audit_entry_at ON audit_entry USING brin (at);

-- Changes by transaction. A reader stores a pg_snapshot and reads the rows whose transaction that
-- snapshot does not include (domain/consistency.py).
CREATE TABLE change_log (
  seq           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  xid           xid8 NOT NULL DEFAULT pg_current_xact_id(),
  tenant_id     int NOT NULL,
  key           bigint NOT NULL,
  kind          text NOT NULL CHECK (kind IN ('segment', 'fact')),
  op            text NOT NULL CHECK (op IN ('written', 'erased', 'embedded')),
  -- The name of an erased item, which the projections need; NULL otherwise.
  erased_tenant text,
  erased_id     text,
  logged_at     timestamptz NOT NULL DEFAULT now(),
  CHECK ((op = 'erased') = (erased_id IS NOT NULL AND erased_tenant IS NOT NULL))
);
CREATE INDEX change_log_xid ON change_log (xid);
CREATE INDEX change_log_key ON change_log (key, seq);

-- Past snapshots, which show compaction what was committed an hour ago.
CREATE TABLE log_checkpoint (
  taken_at timestamptz PRIMARY KEY DEFAULT now(),
  snapshot text NOT NULL
);

-- The position of each projection. model_id is 0 for those that have no model.
CREATE TABLE projection_state (
  projection text NOT NULL CHECK (projection IN ('embedding', 'graph', 'extraction')),
  model_id   smallint NOT NULL,
  position   text NOT NULL,  -- a pg_snapshot
  PRIMARY KEY (projection, model_id)
);

-- Rows that a projection rejected.
CREATE TABLE dead_letter (
  projection       text NOT NULL CHECK (projection IN ('embedding', 'graph', 'extraction')),
  key              bigint NOT NULL,
  tenant_id        int NOT NULL,
  xid              xid8 NOT NULL,  -- of the change
  reason           text NOT NULL,
  dead_lettered_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (projection, key)
);
CREATE INDEX dead_letter_key ON dead_letter (key);
CREATE INDEX dead_letter_xid ON dead_letter (xid);

-- The turns that were read for facts, each with the hash of the text that was read.
CREATE TABLE extraction (
  key       bigint PRIMARY KEY REFERENCES segment ON DELETE CASCADE,
  text_hash bytea NOT NULL
);

-- No vector of a hidden row, nor of a turn after one, whatever a program does. All checks name the
-- same constraint. Once in a statement, since vectors are stored many at a time.
CREATE FUNCTION embedding_of_visible() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM stored JOIN segment ON segment.key IN (stored.key, stored.previous_key)
              WHERE segment.sensitive)
     OR EXISTS (SELECT FROM stored JOIN fact USING (key)
                 WHERE fact.sensitive
                    OR EXISTS (SELECT FROM segment
                                WHERE segment.tenant_id = fact.tenant_id
                                  AND segment.id = ANY (fact.evidence) AND segment.sensitive))
  THEN
    RAISE check_violation USING CONSTRAINT = 'embedding_of_visible',
      MESSAGE = 'a vector of a sensitive row, or of a fact that rests on one';
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER embedding_of_visible AFTER INSERT ON embedding
  REFERENCING NEW TABLE AS stored FOR EACH STATEMENT EXECUTE FUNCTION embedding_of_visible();

-- At the end of a transaction, since a write deletes vectors after it has hidden rows.
CREATE FUNCTION hidden_segment_without_embedding() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM embedding WHERE key = NEW.key OR previous_key = NEW.key)
     OR EXISTS (SELECT FROM fact JOIN embedding USING (key)
                 WHERE fact.tenant_id = NEW.tenant_id AND fact.evidence && ARRAY[NEW.id])
  THEN
    RAISE check_violation USING CONSTRAINT = 'embedding_of_visible',
      MESSAGE = 'a segment is sensitive, and it or a fact that rests on it has a vector';
  END IF;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER hidden_without_embedding AFTER INSERT OR UPDATE OF sensitive ON segment
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.sensitive)
  EXECUTE FUNCTION hidden_segment_without_embedding();

-- Only of updates: a fact that is inserted has a new key, and so no vector.
CREATE FUNCTION hidden_fact_without_embedding() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM embedding WHERE key = NEW.key)
     AND (NEW.sensitive
          OR EXISTS (SELECT FROM segment
                      WHERE segment.tenant_id = NEW.tenant_id
                        AND segment.id = ANY (NEW.evidence) AND segment.sensitive))
  THEN
    RAISE check_violation USING CONSTRAINT = 'embedding_of_visible',
      MESSAGE = 'a fact is sensitive, or rests on what is, and has a vector';
  END IF;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER hidden_without_embedding AFTER UPDATE OF sensitive, evidence ON fact
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
  WHEN (NEW.sensitive OR NEW.evidence <> OLD.evidence)
  EXECUTE FUNCTION hidden_fact_without_embedding();

-- An erased or changed turn lives on in no vector of another, whatever a program does. The turns
-- after it are logged: the projector embeds them with the turn that is before them now.
CREATE FUNCTION context_without_erased() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  WITH gone AS (
    DELETE FROM embedding USING former WHERE embedding.previous_key = former.key
    RETURNING embedding.key
  )
  INSERT INTO change_log (tenant_id, key, kind, op)
  SELECT tenant_id, key, 'segment', 'written' FROM segment JOIN gone USING (key);
  RETURN NULL;
END $$;
CREATE TRIGGER context_without_erased AFTER DELETE ON segment
  REFERENCING OLD TABLE AS former FOR EACH STATEMENT EXECUTE FUNCTION context_without_erased();

CREATE FUNCTION context_without_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  WITH moved AS (
    SELECT former.key FROM former JOIN present USING (key)
     WHERE (former.text_hash, former.sensitive, former.session, former.event_time)
           <> (present.text_hash, present.sensitive, present.session, present.event_time)
  ), gone AS (
    DELETE FROM embedding USING moved
     WHERE embedding.previous_key = moved.key
        OR embedding.key = moved.key AND embedding.previous_key IS NOT NULL
    RETURNING embedding.key
  )
  INSERT INTO change_log (tenant_id, key, kind, op)
  SELECT DISTINCT tenant_id, key, 'segment', 'written' FROM segment JOIN gone USING (key);
  RETURN NULL;
END $$;
CREATE TRIGGER context_without_changed AFTER UPDATE ON segment
  REFERENCING OLD TABLE AS former NEW TABLE AS present
  FOR EACH STATEMENT EXECUTE FUNCTION context_without_changed();

-- Whoever is not the tables' owner sees the rows of the tenant that the connection names
-- (connection/row_security.py). The subquery is evaluated once in a statement.
ALTER TABLE tenant ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON tenant USING (name = current_setting('trivium.tenant', true));

ALTER TABLE segment ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON segment USING (tenant_id = (
  SELECT tenant.id FROM tenant WHERE tenant.name = current_setting('trivium.tenant', true)));

ALTER TABLE fact ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON fact USING (tenant_id = (
  SELECT tenant.id FROM tenant WHERE tenant.name = current_setting('trivium.tenant', true)));

ALTER TABLE entity ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON entity USING (tenant_id = (
  SELECT tenant.id FROM tenant WHERE tenant.name = current_setting('trivium.tenant', true)));

ALTER TABLE access_count ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON access_count USING (tenant_id = (
  SELECT tenant.id FROM tenant WHERE tenant.name = current_setting('trivium.tenant', true)));

INSERT INTO meta (schema_version, cluster_id)
SELECT 1, system_identifier FROM pg_control_system();
