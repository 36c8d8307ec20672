-- No vector of a hidden fact, whatever a program does; of segments, see 0018_context.sql.

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
