"""Webhooks — tells addresses of tenants of events, signed as Standard Webhooks has it."""
