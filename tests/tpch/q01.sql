-- Averages are of six digits behind the point there, and doubles here, which a hair more rounds half up.
SELECT l_returnflag, l_linestatus,
       sum(l_quantity), sum(l_extendedprice), sum(l_extendedprice * (1 - l_discount)),
       sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)),
       CAST(avg(l_quantity) + 1e-9 AS DECIMAL(19, 6)), CAST(avg(l_extendedprice) + 1e-9 AS DECIMAL(19, 6)),
       CAST(avg(l_discount) + 1e-9 AS DECIMAL(19, 6)), count(*)
FROM lineitem
WHERE l_shipdate <= DATE '1998-12-01' - INTERVAL 90 DAY
GROUP BY l_returnflag, l_linestatus
ORDER BY l_returnflag, l_linestatus
