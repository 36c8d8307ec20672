-- Facts that close others, and the closings of each fact.

ALTER TABLE fact
  ADD COLUMN closes        text[] COLLATE "C" NOT NULL DEFAULT '{}',
  ADD COLUMN single_valued boolean NOT NULL DEFAULT false,
  -- Hash of the subject's and the relation's key. NULL in a row of a previous version until it
  -- changes; such a row closes nothing and is found by its entities.
  ADD COLUMN topic         bytea,
  -- Parallel arrays with one element per closing, maintained by writes/closings.py.
  ADD COLUMN closed_by            text[] COLLATE "C" NOT NULL DEFAULT '{}',
  ADD COLUMN closed_at            timestamptz[] NOT NULL DEFAULT '{}',
  ADD COLUMN closing_recorded_at  timestamptz[] NOT NULL DEFAULT '{}',
  ADD COLUMN closing_retracted_at timestamptz[] NOT NULL DEFAULT '{}';

CREATE INDEX fact_topic ON fact (tenant_id, topic, coalesce(valid_from, recorded_at));
-- Partial, since few facts close others; the rest costs nothing.
CREATE INDEX fact_closes ON fact USING gin (tenant_id, closes)
  WITH (fastupdate = off) WHERE closes <> '{}';
CREATE INDEX fact_closed_by ON fact USING gin (tenant_id, closed_by)
  WITH (fastupdate = off) WHERE closed_by <> '{}';
