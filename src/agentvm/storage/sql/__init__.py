"""SQL — the queries of the store, written once for every database engine."""
