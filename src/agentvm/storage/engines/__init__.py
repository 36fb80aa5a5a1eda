"""Engines — the databases that the queries of `agentvm.storage.sql` run on."""
