-- Keywords, and a label for each part of the words: A title, B keywords, C speaker, D text.
--
-- Rows that are already stored are not rewritten. Their words have no label, so all count as text
-- until the segment is written anew with other words.
ALTER TABLE segment ADD COLUMN keywords text[] NOT NULL DEFAULT '{}';

CREATE OR REPLACE FUNCTION segment_words() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  config regconfig;
BEGIN
  IF TG_OP = 'UPDATE' THEN
    IF (NEW.title, NEW.speaker, NEW.text, NEW.keywords)
       = (OLD.title, OLD.speaker, OLD.text, OLD.keywords) THEN
      NEW.tsv := OLD.tsv;
      NEW.dl := OLD.dl;
      RETURN NEW;
    END IF;
  END IF;
  config := (SELECT quote_ident(text_search_config)::regconfig FROM tenant
              WHERE id = NEW.tenant_id);
  NEW.tsv := to_tsvector(config, NEW.text);
  IF NEW.speaker <> '' THEN
    NEW.tsv := setweight(to_tsvector(config, NEW.speaker), 'C') || NEW.tsv;
  END IF;
  IF NEW.title <> '' THEN
    NEW.tsv := setweight(to_tsvector(config, NEW.title), 'A') || NEW.tsv;
  END IF;
  IF NEW.keywords <> '{}' THEN
    NEW.tsv := NEW.tsv || setweight(to_tsvector(config, array_to_string(NEW.keywords, '. ')), 'B');
  END IF;
  NEW.dl := length(NEW.tsv);
  RETURN NEW;
END $$;
