"""PostgreSQL: answers that are kept current in a table, and streams that are read from one. It needs psycopg."""
