"""Cluster — several nodes over one database: membership, takeover, and messages between nodes.

PostgreSQL decides everything; see `agentvm.storage.sql.nodes`. One server alone runs no code of this package.
"""
