-- The greatest total is taken from the totals themselves: two sums of the same doubles may differ in the last digit.
SELECT s_suppkey, s_name, s_address, s_phone, total_revenue
FROM supplier, (
    SELECT supplier_no, total_revenue, max(total_revenue) OVER () AS best
    FROM (
        SELECT l_suppkey AS supplier_no, sum(l_extendedprice * (1 - l_discount)) AS total_revenue
        FROM lineitem
        WHERE l_shipdate >= DATE '1996-01-01' AND l_shipdate < DATE '1996-01-01' + INTERVAL 3 MONTH
        GROUP BY l_suppkey
    ) AS revenue
) AS ranked
WHERE s_suppkey = supplier_no AND total_revenue = best
ORDER BY s_suppkey
