-- Vectors of a segment together with the turn before it, as window -1 of the segment.

-- The key of that turn; NULL in vectors of the text alone.
ALTER TABLE embedding ADD COLUMN IF NOT EXISTS previous_key bigint;
CREATE INDEX IF NOT EXISTS embedding_previous ON embedding (previous_key)
  WHERE previous_key IS NOT NULL;

-- Finds the turns before and after another.
CREATE INDEX IF NOT EXISTS segment_turn ON segment (tenant_id, session, event_time, id)
  WHERE session <> '' AND NOT sensitive;

-- No vector of a hidden row, nor of a turn after one, whatever a program does. All checks name the
-- same constraint. Once in a statement, since vectors are stored many at a time.
CREATE OR REPLACE FUNCTION embedding_of_visible() RETURNS trigger LANGUAGE plpgsql AS $$
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
CREATE OR REPLACE TRIGGER embedding_of_visible AFTER INSERT ON embedding
  REFERENCING NEW TABLE AS stored FOR EACH STATEMENT EXECUTE FUNCTION embedding_of_visible();

-- At the end of a transaction, since a write deletes vectors after it has hidden rows.
CREATE OR REPLACE FUNCTION hidden_segment_without_embedding() RETURNS trigger LANGUAGE plpgsql AS $$
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
DROP TRIGGER IF EXISTS hidden_without_embedding ON segment;
CREATE CONSTRAINT TRIGGER hidden_without_embedding AFTER INSERT OR UPDATE OF sensitive ON segment
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.sensitive)
  EXECUTE FUNCTION hidden_segment_without_embedding();

-- An erased or changed turn lives on in no vector of another, whatever a program does. The turns
-- after it are logged: the projector embeds them with the turn that is before them now.
CREATE OR REPLACE FUNCTION context_without_erased() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  WITH gone AS (
    DELETE FROM embedding USING former WHERE embedding.previous_key = former.key
    RETURNING embedding.key
  )
  INSERT INTO change_log (tenant_id, key, kind, op)
  SELECT tenant_id, key, 'segment', 'written' FROM segment JOIN gone USING (key);
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER context_without_erased AFTER DELETE ON segment
  REFERENCING OLD TABLE AS former FOR EACH STATEMENT EXECUTE FUNCTION context_without_erased();

CREATE OR REPLACE FUNCTION context_without_changed() RETURNS trigger LANGUAGE plpgsql AS $$
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
CREATE OR REPLACE TRIGGER context_without_changed AFTER UPDATE ON segment
  REFERENCING OLD TABLE AS former NEW TABLE AS present
  FOR EACH STATEMENT EXECUTE FUNCTION context_without_changed();
