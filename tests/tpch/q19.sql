-- The sum of nothing is 0.
SELECT coalesce(sum(l_extendedprice * (1 - l_discount)), 0)
FROM lineitem, part
WHERE (p_partkey = l_partkey AND p_brand = 'Brand#12' AND p_container = 'SMALL BOX'
       AND l_quantity >= 1 AND l_quantity <= 31 AND p_size BETWEEN 1 AND 10
       AND l_shipmode IN ('AIR', 'MAIL') AND l_shipinstruct = 'IN PERSON')
   OR (p_partkey = l_partkey AND p_brand = 'Brand#23' AND p_container IN ('MEDIUM BAG', 'SMALL BOX')
       AND l_quantity >= 10 AND l_quantity <= 40 AND p_size BETWEEN 1 AND 15
       AND l_shipmode IN ('AIR', 'MAIL') AND l_shipinstruct = 'IN PERSON')
   OR (p_partkey = l_partkey AND p_brand = 'Brand#34' AND p_container = 'LARGE DRUM'
       AND l_quantity >= 20 AND l_quantity <= 50 AND p_size BETWEEN 1 AND 15
       AND l_shipmode IN ('AIR', 'MAIL') AND l_shipinstruct = 'IN PERSON')
