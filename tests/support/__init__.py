"""Shared by several tests: generated queries and data, catalogs of cases, and drivers of engines."""
