-- Facts that end the truth of others, and beside each fact what ended it.

ALTER TABLE fact
  ADD COLUMN closes        text[] COLLATE "C" NOT NULL DEFAULT '{}',
  ADD COLUMN single_valued boolean NOT NULL DEFAULT false,
  -- Of the keys of subject and relation. NULL in a row of a former version until it is changed;
  -- such rows end nothing, and are found by their entities.
  ADD COLUMN topic         bytea,
  -- Made by superseding.py from all of the tenant's facts: one place per closing.
  ADD COLUMN closed_by            text[] COLLATE "C" NOT NULL DEFAULT '{}',
  ADD COLUMN closed_at            timestamptz[] NOT NULL DEFAULT '{}',
  ADD COLUMN closing_recorded_at  timestamptz[] NOT NULL DEFAULT '{}',
  ADD COLUMN closing_retracted_at timestamptz[] NOT NULL DEFAULT '{}';

CREATE INDEX fact_topic ON fact (tenant_id, topic, coalesce(valid_from, recorded_at));
-- Partial, since few facts close others, so that the rest costs nothing.
CREATE INDEX fact_closes ON fact USING gin (tenant_id, closes)
  WITH (fastupdate = off) WHERE closes <> '{}';
CREATE INDEX fact_closed_by ON fact USING gin (tenant_id, closed_by)
  WITH (fastupdate = off) WHERE closed_by <> '{}';
