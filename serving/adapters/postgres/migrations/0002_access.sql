-- What was shown last, and what was said last: each found without reading the whole tenant.

-- Of the item. NULL in a row that a process of the former version made, until the item is shown
-- again.
ALTER TABLE access_count ADD COLUMN tenant_id int;

UPDATE access_count SET tenant_id = item.tenant_id
  FROM (SELECT key, tenant_id FROM segment
         UNION ALL SELECT key, tenant_id FROM fact) AS item
 WHERE item.key = access_count.key;

-- With it an update of a count is no longer heap-only; they come once a second, off the read path.
CREATE INDEX access_count_last_shown ON access_count (tenant_id, last_shown);

-- Partial, so that no search by words can take it: those are planned without the values of their
-- filter, and for any range of times this index looks better than that of the words.
CREATE INDEX segment_event_time ON segment (tenant_id, event_time) WHERE NOT sensitive;
