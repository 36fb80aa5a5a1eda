"""PostgreSQL — the engine for a server whose database is elsewhere: one writing connection, readers beside it."""
