"""Tables of Apache Iceberg, which are read: their metadata by `pyiceberg`, their files by the engines."""
