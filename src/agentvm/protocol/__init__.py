"""Protocol — the wire, sans-IO: text in, typed commands out; events and replies in, text out."""
