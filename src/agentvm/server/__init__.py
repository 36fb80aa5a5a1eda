"""Server — the only package that listens: HTTP and WebSocket on one port."""
