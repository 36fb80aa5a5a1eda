"""Tenants — accounts, permissions, quotas and prices."""
