"""Cluster — several nodes over one database: who is there, who takes over, and what nodes say to each other.

PostgreSQL decides everything; see `agentvm.storage.sql.nodes`. One server alone runs no code of this package.
"""
