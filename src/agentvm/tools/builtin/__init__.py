"""Built-in tools — those that come with the server."""
