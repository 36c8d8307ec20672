-- Only names of rows that are not hidden remain: names correct the words of questions.
WITH unused AS (
  DELETE FROM entity
   WHERE NOT EXISTS (SELECT FROM segment
                      WHERE segment.tenant_id = entity.tenant_id
                        AND segment.tags && ARRAY['e:' || entity.name_key]
                        AND NOT segment.sensitive)
     AND NOT EXISTS (SELECT FROM fact
                      WHERE fact.tenant_id = entity.tenant_id
                        AND fact.entity_keys && ARRAY[entity.name_key]
                        AND NOT fact.sensitive
                        AND NOT EXISTS (SELECT FROM segment
                                         WHERE segment.tenant_id = fact.tenant_id
                                           AND segment.id = ANY (fact.evidence)
                                           AND segment.sensitive))
  RETURNING tenant_id
)
UPDATE tenant SET names_erased = names_erased + 1 WHERE id IN (SELECT tenant_id FROM unused);
