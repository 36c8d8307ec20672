"""Vector indexes as the pipeline uses them: following the log, sharded, with a standby."""
