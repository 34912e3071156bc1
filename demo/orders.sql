-- A database in memory: rows of varying length, an index, a join, and deletions in between. Deterministic.

PRAGMA journal_mode = OFF;
CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT, note TEXT);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, amount INTEGER, what TEXT);

WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
INSERT INTO customer SELECT i, 'customer ' || i, substr(hex(zeroblob(100)), 1, i * 37 % 180) FROM n;

WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 250000)
INSERT INTO orders SELECT i, i * 7919 % 20000 + 1, i * 31 % 1000, 'item ' || (i * 104729 % 5003) FROM n;

CREATE INDEX by_customer ON orders (customer);
CREATE INDEX by_what ON orders (what);
DELETE FROM orders WHERE id % 3 = 0;
INSERT INTO orders SELECT id + 1000000, customer, amount, what || ' again' FROM orders WHERE id % 2 = 0;

SELECT count(*), sum(total) FROM
  (SELECT name, sum(amount) AS total FROM customer JOIN orders ON customer = customer.id GROUP BY name);
SELECT group_concat(what, ',') FROM (SELECT what FROM orders GROUP BY what ORDER BY count(*) DESC, what LIMIT 5);
