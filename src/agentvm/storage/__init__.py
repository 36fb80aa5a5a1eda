"""Storage — repositories behind protocols, always obtained for a scope."""
