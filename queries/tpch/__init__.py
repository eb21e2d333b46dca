"""Queries of TPC-H over streams, and data for them."""
