-- The last transaction that erased items or made them sensitive; 0 before the first. Files that
-- were written from an older position of the log may hold what it removed. Those transactions
-- update this row one after the other, so a snapshot that includes the last includes all of them.
ALTER TABLE meta ADD COLUMN erased_xid xid8 NOT NULL DEFAULT '0';
