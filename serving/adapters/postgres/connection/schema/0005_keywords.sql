-- Keywords. The label of each part of the words is A title, B keywords, C speaker, D text; the words
-- of stored rows get theirs after 0017_words.sql.
ALTER TABLE segment ADD COLUMN keywords text[] NOT NULL DEFAULT '{}';
