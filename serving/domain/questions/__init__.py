"""Questions: the query, its filters, and the periods and names in it."""
