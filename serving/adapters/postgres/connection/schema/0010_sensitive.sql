-- No vector of a hidden row, whatever a program does. All checks name the same constraint.

-- Once in a statement, since vectors are stored many at a time.
CREATE OR REPLACE FUNCTION embedding_of_visible() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM stored JOIN segment USING (key) WHERE segment.sensitive)
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
CREATE OR REPLACE TRIGGER embedding_of_visible AFTER INSERT ON embedding
  REFERENCING NEW TABLE AS stored FOR EACH STATEMENT EXECUTE FUNCTION embedding_of_visible();

-- At the end of a transaction, since a write deletes vectors after it has hidden rows.
CREATE OR REPLACE FUNCTION hidden_segment_without_embedding() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM embedding WHERE key = NEW.key)
     OR EXISTS (SELECT FROM fact JOIN embedding USING (key)
                 WHERE fact.tenant_id = NEW.tenant_id AND fact.evidence && ARRAY[NEW.id])
  THEN
    RAISE check_violation USING CONSTRAINT = 'embedding_of_visible',
      MESSAGE = 'a segment is sensitive, and it or a fact that rests on it has a vector';
  END IF;
  RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS hidden_without_embedding ON segment;
CREATE CONSTRAINT TRIGGER hidden_without_embedding AFTER INSERT OR UPDATE OF sensitive ON segment
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.sensitive)
  EXECUTE FUNCTION hidden_segment_without_embedding();

-- Only of updates: a fact that is inserted has a new key, and so no vector.
CREATE OR REPLACE FUNCTION hidden_fact_without_embedding() RETURNS trigger LANGUAGE plpgsql AS $$
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
DROP TRIGGER IF EXISTS hidden_without_embedding ON fact;
CREATE CONSTRAINT TRIGGER hidden_without_embedding AFTER UPDATE OF sensitive, evidence ON fact
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
  WHEN (NEW.sensitive OR NEW.evidence <> OLD.evidence)
  EXECUTE FUNCTION hidden_fact_without_embedding();

-- No statistics of columns that no condition reads: ANALYZE would copy their values, those of
-- sensitive rows too, and keep them beyond an erasure. A change of the type, here to the same one,
-- deletes what it has copied before.
ALTER TABLE segment
  ALTER text TYPE text, ALTER text SET STATISTICS 0,
  ALTER title TYPE text, ALTER title SET STATISTICS 0,
  ALTER speaker TYPE text, ALTER speaker SET STATISTICS 0,
  ALTER session TYPE text, ALTER session SET STATISTICS 0,
  ALTER labels TYPE jsonb, ALTER labels SET STATISTICS 0,
  ALTER entities TYPE text[], ALTER entities SET STATISTICS 0,
  ALTER entity TYPE text, ALTER entity SET STATISTICS 0,
  ALTER keywords TYPE text[], ALTER keywords SET STATISTICS 0;
ALTER TABLE fact
  ALTER subject TYPE text, ALTER subject SET STATISTICS 0,
  ALTER relation TYPE text, ALTER relation SET STATISTICS 0,
  ALTER object TYPE text, ALTER object SET STATISTICS 0,
  ALTER sentence TYPE text, ALTER sentence SET STATISTICS 0;
