"""Client — connects to a server over HTTP and WebSocket."""
