"""The rows of the index: columns, partitions by tenant and kind, views, and the exact scan."""
