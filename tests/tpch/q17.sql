-- The sum of nothing is 0, and the quotient of six digits behind the point there, and a double here.
SELECT CAST(coalesce(sum(l_extendedprice), 0) / 7.0 AS DECIMAL(30, 6))
FROM lineitem, part
WHERE p_partkey = l_partkey AND p_brand = 'Brand#23' AND p_container = 'MED BOX'
  AND l_quantity < (SELECT 0.2 * avg(l_quantity) FROM lineitem WHERE l_partkey = p_partkey)
