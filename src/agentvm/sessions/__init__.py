"""Sessions — use cases of conversations: library, sender, branches, titles, summaries, retention, export and import."""
