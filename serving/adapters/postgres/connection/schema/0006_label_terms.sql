-- Escapes the keys of labels in the filter terms (label_term in domain/questions/query.py). Before,
-- `a` = `b=c` and `a=b` = `c` had the same term. Only rows with such keys change; the log makes the
-- vector index and the graph read them again.
WITH changed AS (
  UPDATE segment
     SET written_xid = pg_current_xact_id(),
         tags = ARRAY(
           SELECT tag FROM unnest(tags) AS tag WHERE NOT starts_with(tag, 'l:')
            UNION
           SELECT 'l:' || replace(replace(key, '\', '\\'), '=', '\=') || '=' || value
             FROM jsonb_each_text(labels)
            ORDER BY 1)
   WHERE EXISTS (SELECT FROM jsonb_object_keys(labels) AS key WHERE key ~ '[=\\]')
  RETURNING tenant_id, key
)
INSERT INTO change_log (tenant_id, key, kind, op)
SELECT tenant_id, key, 'segment', 'written' FROM changed;
