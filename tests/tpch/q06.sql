-- The sum of nothing is 0.
SELECT coalesce(sum(l_extendedprice * l_discount), 0)
FROM lineitem
WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1994-01-01' + INTERVAL 1 YEAR
  AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24
