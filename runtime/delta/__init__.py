"""Tables of Delta Lake, read and written: their log by `deltalake`, their files by the engines."""
