-- For questions about a day: few segments speak of one.
CREATE INDEX IF NOT EXISTS segment_mentions ON segment (tenant_id, mentions_from)
  WHERE mentions_from IS NOT NULL;
