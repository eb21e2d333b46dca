"""Queries with loops, and data for them."""
