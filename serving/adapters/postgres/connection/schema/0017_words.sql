-- The words of segments are made by the service (words/tsvector.py). What PostgreSQL's parser made
-- of them is replaced by words/rewriting.py, a few segments at a time and while the service runs.
CREATE TABLE IF NOT EXISTS outdated_words (
  key bigint PRIMARY KEY  -- of a segment, or of one that was erased since
);
INSERT INTO outdated_words SELECT key FROM segment ON CONFLICT DO NOTHING;

-- A program of the version before leaves the words to a trigger. They are rewritten later.
CREATE OR REPLACE FUNCTION segment_words() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  config regconfig;
BEGIN
  config := (SELECT quote_ident(text_search_config)::regconfig FROM tenant
              WHERE id = NEW.tenant_id);
  NEW.tsv := setweight(to_tsvector(config, NEW.title), 'A')
    || setweight(to_tsvector(config, NEW.speaker), 'C')
    || to_tsvector(config, NEW.text)
    || setweight(to_tsvector(config, array_to_string(NEW.keywords, '. ')), 'B');
  NEW.dl := length(NEW.tsv);
  INSERT INTO outdated_words VALUES (NEW.key) ON CONFLICT DO NOTHING;
  RETURN NEW;
END $$;
DROP TRIGGER IF EXISTS segment_words ON segment;
CREATE TRIGGER segment_words BEFORE INSERT ON segment
  FOR EACH ROW WHEN (NEW.tsv IS NULL) EXECUTE FUNCTION segment_words();
DROP TRIGGER IF EXISTS segment_words_changed ON segment;
CREATE TRIGGER segment_words_changed BEFORE UPDATE OF title, speaker, text, keywords ON segment
  FOR EACH ROW
  WHEN (NEW.tsv = OLD.tsv
        AND (NEW.title, NEW.speaker, NEW.text, NEW.keywords)
            IS DISTINCT FROM (OLD.title, OLD.speaker, OLD.text, OLD.keywords))
  EXECUTE FUNCTION segment_words();
