-- Taken by another change; this file only keeps the numbers in order.
SELECT 1;
