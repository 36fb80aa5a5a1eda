"""Gateways — other protocols as encoders over the operations, the log and its cursors."""
