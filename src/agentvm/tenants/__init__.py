"""Tenants — who may do what, how much, and what it costs."""
