-- Indexes on the last access and on the event time, to find the latest without a tenant scan.

-- The item's tenant. NULL in a row inserted by a process of the previous version, until the next
-- access.
ALTER TABLE access_count ADD COLUMN tenant_id int;

UPDATE access_count SET tenant_id = item.tenant_id
  FROM (SELECT key, tenant_id FROM segment
         UNION ALL SELECT key, tenant_id FROM fact) AS item
 WHERE item.key = access_count.key;

-- Updates of a count are then no longer heap-only; they run once a second, off the read path.
CREATE INDEX access_count_last_shown ON access_count (tenant_id, last_shown);

-- Partial, so that lexical searches cannot use it: their generic plans would prefer it to the word
-- index for any time range.
CREATE INDEX segment_event_time ON segment (tenant_id, event_time) WHERE NOT sensitive;
