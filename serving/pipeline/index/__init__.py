"""Vector indexes as the pipeline uses them: following the log, and sharded."""
