"""The programmatic interface: queries over DataFrames, kept up to date batch by batch.

query = mrql.compile("select (k, avg(p.Y)) from p in points group by k: p.X", points="bag(<X: long, Y: double>)")
query.batch(points=df)
view = query.view(spark)
changes = view.apply(points=mrql.Delta(insert=new))
view.answer()
"""

from mrql.api.arguments import Loop, key
from mrql.api.compilation import compile
from mrql.api.delta import Delta
from mrql.api.frames import table
from mrql.api.query import DrawnPlan, Query
from mrql.api.sources import FollowedSource, delta_table, iceberg_table, postgresql_cdc
from mrql.api.table_changes import TableChanges, table_changes
from mrql.api.view import View

__all__ = [
    "Delta",
    "DrawnPlan",
    "FollowedSource",
    "Loop",
    "Query",
    "TableChanges",
    "View",
    "compile",
    "delta_table",
    "iceberg_table",
    "key",
    "postgresql_cdc",
    "table",
    "table_changes",
]
