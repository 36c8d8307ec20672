-- Where a tenant's turns are said, for requests that name no time zone. Empty is UTC.
ALTER TABLE tenant ADD COLUMN IF NOT EXISTS time_zone text NOT NULL DEFAULT '';
