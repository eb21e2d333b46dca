"""What several tests share: generated queries and data, catalogs of cases, engines that are driven by tests."""
