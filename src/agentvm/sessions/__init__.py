"""Sessions — carrying them: out as an archive or as pages for people, in from archives of our own and of others."""
