"""Blueprint — the static side: definitions and the images built from them."""
