"""Channels — bots on chat platforms: an adapter for each platform, and the host that runs them all."""
