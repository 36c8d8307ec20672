"""How soon the search for a transcript is gone from every store after a newer one."""
