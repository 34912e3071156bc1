"""DuckDB: tables made, joined, grouped, sorted and windowed in memory, by two threads.  queries.py ROUNDS"""
import sys

import duckdb


def main(rounds):
    db = duckdb.connect(config={"threads": 2})
    db.execute("CREATE TABLE sale AS SELECT i AS id, i * 7919 % 3001 AS item, i % 365 AS day, i * 31 % 17 AS count, "
               "'note ' || (i * 65537 % 9973) AS note FROM range(250000) t(i)")
    db.execute("CREATE TABLE item AS SELECT i AS item, 'group ' || (i % 97) AS grp, i * 37 % 1009 AS price FROM "
               "range(3001) t(i)")
    for i in range(rounds):
        print(db.execute("SELECT grp, sum(price * count) FROM sale JOIN item USING (item) WHERE day % 7 = ? "
                         "GROUP BY grp ORDER BY 2 DESC, 1 LIMIT 5", [i % 7]).fetchall())
        print(db.execute("SELECT note, count(*) FROM sale GROUP BY note ORDER BY 2 DESC, 1 LIMIT 3").fetchall())
        print(db.execute("SELECT max(r) FROM (SELECT row_number() OVER (PARTITION BY item ORDER BY day, id) AS r FROM "
                         "sale)").fetchall())
        print(db.execute("SELECT sum(length(s)) FROM (SELECT string_agg(note, '|' ORDER BY id) AS s FROM sale GROUP "
                         "BY item)").fetchall())
        print(len(db.execute("SELECT id, note, day FROM sale WHERE id % 20 = ? ORDER BY note, id",
                             [i % 20]).fetchall()))


main(int(sys.argv[1]))
