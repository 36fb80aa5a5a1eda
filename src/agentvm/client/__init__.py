"""Client — the same verbs against a runtime elsewhere."""
