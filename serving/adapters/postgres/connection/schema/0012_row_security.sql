-- Whoever is not the tables' owner sees the rows of the tenant that the connection names
-- (connection/row_security.py). The subquery is evaluated once in a statement.
ALTER TABLE tenant ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON tenant USING (name = current_setting('trivium.tenant', true));

ALTER TABLE segment ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON segment USING (tenant_id = (
  SELECT tenant.id FROM tenant WHERE tenant.name = current_setting('trivium.tenant', true)));

ALTER TABLE fact ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON fact USING (tenant_id = (
  SELECT tenant.id FROM tenant WHERE tenant.name = current_setting('trivium.tenant', true)));

ALTER TABLE entity ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON entity USING (tenant_id = (
  SELECT tenant.id FROM tenant WHERE tenant.name = current_setting('trivium.tenant', true)));

-- Counts of the first version; one that a process of it adds later is not seen until the next access.
UPDATE access_count SET tenant_id = item.tenant_id
  FROM (SELECT key, tenant_id FROM segment
         UNION ALL SELECT key, tenant_id FROM fact) AS item
 WHERE item.key = access_count.key AND access_count.tenant_id IS NULL;

ALTER TABLE access_count ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON access_count USING (tenant_id = (
  SELECT tenant.id FROM tenant WHERE tenant.name = current_setting('trivium.tenant', true)));
