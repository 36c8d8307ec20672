-- Function words that are written as names ("my cousin Will", "the IT department") are words since,
-- and the question words that Snowball's lists lack are function words. The others stay as they are.
INSERT INTO outdated_words
SELECT key
  FROM segment, concat_ws(E'\n', title, text, array_to_string(keywords, E'\n')) AS said
 WHERE said ~ '[[:alnum:],;] (?:Will|Don|[[:upper:]]{2,})\M'
    OR said ~* '\m(?:quién|quiénes|cuándo|quoi|quels?|quelles?|wieviel|welk|hoeveel|wiens)\M'
ON CONFLICT DO NOTHING;
