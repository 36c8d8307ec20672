-- Groups that each have letters and digits ("SW1A 2AA") are one code since. The others stay.
INSERT INTO outdated_words
SELECT key
  FROM segment, concat_ws(E'\n', title, text, array_to_string(keywords, E'\n')) AS said
 WHERE said ~* '\m(?:[a-z]+[0-9]|[0-9]+[a-z])[0-9a-z]*\M\s+(?:[a-z]+[0-9]|[0-9]+[a-z])[0-9a-z]*\M'
ON CONFLICT DO NOTHING;
