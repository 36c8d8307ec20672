-- The schema of Trivium, for PostgreSQL 15 to 18. Requires the extension btree_gin.

CREATE EXTENSION IF NOT EXISTS btree_gin;

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
  complete_model smallint
);

CREATE TABLE tenant (
  id                 int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name               text COLLATE "C" NOT NULL UNIQUE,
  text_search_config text NOT NULL, -- a name: pg_upgrade rejects columns of type regconfig
  names_erased       int NOT NULL DEFAULT 0  -- how often names were deleted from `entity`
);

-- Shared by segments and facts, so that one integer identifies an item.
CREATE SEQUENCE item_key AS bigint;

CREATE TABLE segment (
  key          bigint PRIMARY KEY DEFAULT nextval('item_key'),
  tenant_id    int NOT NULL REFERENCES tenant,
  id           text COLLATE "C" NOT NULL CHECK (octet_length(id) BETWEEN 1 AND 256),
  text         text NOT NULL,
  title        text NOT NULL,
  kind         text NOT NULL,
  speaker      text NOT NULL,
  session      text NOT NULL,
  event_time   timestamptz NOT NULL,
  importance   float8 NOT NULL,
  sensitive    boolean NOT NULL,
  labels       jsonb NOT NULL,
  entities     text[] NOT NULL,
  entity       text NOT NULL,
  content_hash bytea NOT NULL,  -- of all that the client sent; equal if unchanged
  text_hash    bytea NOT NULL,  -- of the text that is embedded
  written_xid  xid8 NOT NULL DEFAULT pg_current_xact_id(),
  created_at   timestamptz NOT NULL DEFAULT now(),
  updated_at   timestamptz NOT NULL DEFAULT now(),
  tags         text[] NOT NULL,  -- segment_terms (domain/questions/query.py), and "w:" with the week
  tsv          tsvector NOT NULL,
  dl           int NOT NULL,     -- distinct words
  UNIQUE (tenant_id, id)
);

-- Parses the words once; a second generated column would parse them again, and parsing is half the
-- cost of a write. The text equals that of text_to_embed (domain/items/text.py).
CREATE FUNCTION segment_words() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE' THEN
    IF (NEW.title, NEW.speaker, NEW.text) = (OLD.title, OLD.speaker, OLD.text) THEN
      NEW.tsv := OLD.tsv;
      NEW.dl := OLD.dl;
      RETURN NEW;
    END IF;
  END IF;
  NEW.tsv := to_tsvector(
    (SELECT quote_ident(text_search_config)::regconfig FROM tenant WHERE id = NEW.tenant_id),
    CASE NEW.title WHEN '' THEN '' ELSE NEW.title || '. ' END
      || CASE NEW.speaker WHEN '' THEN '' ELSE NEW.speaker || ': ' END
      || NEW.text);
  NEW.dl := length(NEW.tsv);
  RETURN NEW;
END $$;
CREATE TRIGGER segment_words BEFORE INSERT OR UPDATE ON segment
  FOR EACH ROW EXECUTE FUNCTION segment_words();

-- Without a pending list (fastupdate), which during writes costs every search 3 to 4 ms.
CREATE INDEX segment_words ON segment USING gin (tenant_id, tags, tsv) WITH (fastupdate = off);
CREATE INDEX segment_sensitive ON segment (tenant_id, id) WHERE sensitive;
-- pg_stats.most_common_elems of this column holds the document frequencies.
ALTER TABLE segment ALTER tsv SET STATISTICS 1000;
ALTER TABLE segment SET (autovacuum_analyze_scale_factor = 0.05,
                         autovacuum_vacuum_insert_scale_factor = 0.1);

-- The entities that each segment names, by name key.
CREATE VIEW mention AS
  SELECT segment.tenant_id, segment.key, segment.id, substr(tag, 3) AS name_key
    FROM segment, unnest(segment.tags) AS tag
   WHERE starts_with(tag, 'e:');

CREATE TABLE fact (
  key          bigint PRIMARY KEY DEFAULT nextval('item_key'),
  tenant_id    int NOT NULL REFERENCES tenant,
  id           text COLLATE "C" NOT NULL CHECK (octet_length(id) BETWEEN 1 AND 256),
  subject      text NOT NULL,
  relation     text NOT NULL,
  object       text NOT NULL,
  sentence     text NOT NULL,
  valid_from   timestamptz,
  valid_to     timestamptz,
  recorded_at  timestamptz NOT NULL,
  retracted_at timestamptz,
  evidence     text[] COLLATE "C" NOT NULL,
  weight       float8 NOT NULL,
  sensitive    boolean NOT NULL,
  entity_keys  text[] NOT NULL,  -- of subject and object, by name key
  content_hash bytea NOT NULL,
  text_hash    bytea NOT NULL,
  written_xid  xid8 NOT NULL DEFAULT pg_current_xact_id(),
  created_at   timestamptz NOT NULL DEFAULT now(),
  updated_at   timestamptz NOT NULL DEFAULT now(),
  UNIQUE (tenant_id, id)
);
CREATE INDEX fact_evidence ON fact USING gin (tenant_id, evidence) WITH (fastupdate = off);
CREATE INDEX fact_entities ON fact USING gin (tenant_id, entity_keys) WITH (fastupdate = off);

-- The entity names used by segments and facts, in their first spelling.
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

-- One vector per window of an item's text, as little-endian float16.
CREATE TABLE embedding (
  model_id  smallint NOT NULL REFERENCES embedding_model,
  key       bigint NOT NULL,  -- of a segment or a fact
  window_no smallint NOT NULL,
  text_hash bytea NOT NULL,
  vector    bytea NOT NULL,
  PRIMARY KEY (model_id, key, window_no)
);
-- A full read of inline vectors takes half the CPU of TOASTed ones.
ALTER TABLE embedding ALTER vector SET STORAGE PLAIN;
CREATE INDEX embedding_key ON embedding (key);

-- How often an item was returned. The counters have no index, so every update is heap-only.
CREATE TABLE access_count (
  key         bigint PRIMARY KEY,
  shown       bigint NOT NULL,
  last_shown  timestamptz NOT NULL
) WITH (fillfactor = 50);

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

-- The position of each projection. model_id is 0 for the graph, which has no model.
CREATE TABLE projection_state (
  projection text NOT NULL CHECK (projection IN ('embedding', 'graph')),
  model_id   smallint NOT NULL,
  position   text NOT NULL,  -- a pg_snapshot
  PRIMARY KEY (projection, model_id)
);

-- Rows that a projection rejected.
CREATE TABLE dead_letter (
  projection   text NOT NULL CHECK (projection IN ('embedding', 'graph')),
  key          bigint NOT NULL,
  tenant_id    int NOT NULL,
  xid          xid8 NOT NULL,  -- of the change
  reason       text NOT NULL,
  dead_lettered_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (projection, key)
);
CREATE INDEX dead_letter_key ON dead_letter (key);
CREATE INDEX dead_letter_xid ON dead_letter (xid);

INSERT INTO meta (schema_version, cluster_id)
SELECT 1, system_identifier FROM pg_control_system();
