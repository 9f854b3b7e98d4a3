"""The demo's data: Sakila from its SQL files, and a generated table of orders."""

from contextlib import closing
from pathlib import Path

from sandbox.database import DatabaseServer
from sandbox.settings import Flavour
from sandbox.sql import load_sql

SAKILA = Path(__file__).resolve().parent / "data" / "sakila"
ORDERS_DATABASE = "shop"
_BATCH = 10_000  # rows a statement: one transaction each, large enough to be fast

_CREATE_ORDERS = """
CREATE TABLE orders (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  user_id BIGINT UNSIGNED NOT NULL,
  order_no VARCHAR(32) NOT NULL,
  amount DECIMAL(20,4) NOT NULL,
  status ENUM('new','paid','shipped','done','cancelled') NOT NULL,
  detail JSON NOT NULL,
  created_at DATETIME(3) NOT NULL,
  updated_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3),
  quantity INT UNSIGNED NOT NULL,
  discount DOUBLE NOT NULL,
  note VARCHAR(255) NULL,
  payload VARBINARY(64) NOT NULL,
  KEY user (user_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4
"""

# h1 to h4 are four 32-bit numbers that depend on seed and row only, so that both flavours get the same rows.
# Some rows carry what is easily broken on the way: numbers above 2^63, characters of four bytes, NULL against
# the empty string, bytes that are no text.
_FILL_ORDERS = """
INSERT INTO orders
  (id, user_id, order_no, amount, status, detail, created_at, updated_at, quantity, discount, note, payload)
WITH RECURSIVE seq (n) AS (SELECT %(low)s UNION ALL SELECT n + 1 FROM seq WHERE n < %(high)s),
hashed AS (
  SELECT n, CRC32(CONCAT(%(seed)s, 'a', n)) AS h1, CRC32(CONCAT(%(seed)s, 'b', n)) AS h2,
    CRC32(CONCAT(%(seed)s, 'c', n)) AS h3, CRC32(CONCAT(%(seed)s, 'd', n)) AS h4
  FROM seq
)
SELECT
  n,
  IF(h1 MOD 1000 = 0, 18446744073709551615 - h2 MOD 1000, 1 + h2 MOD 50000),
  CONCAT('SO-', LPAD(n, 10, '0'), '-', LPAD(HEX(h1), 8, '0')),
  (CAST(h3 AS SIGNED) - 100000000) / 10000,
  1 + h4 MOD 5,
  JSON_OBJECT('sku', CONCAT('sku-', h1 MOD 997), 'tags', JSON_ARRAY('a', h2 MOD 10, NULL),
    'gift', h3 MOD 2 = 0),
  '2023-01-01' + INTERVAL h2 MOD 94608000 SECOND + INTERVAL 1000 * (h1 MOD 1000) MICROSECOND,
  '2023-01-01' + INTERVAL h3 MOD 94608000 SECOND + INTERVAL 1000 * (h2 MOD 1000) MICROSECOND,
  h4 MOD 100,
  (h1 MOD 10000) / 7e0,
  CASE h4 MOD 8 WHEN 0 THEN NULL WHEN 1 THEN ''
    WHEN 2 THEN CONCAT('礼物 🎁 ', h1) ELSE CONCAT('note ', h3) END,
  CONCAT(UNHEX(SHA2(CONCAT(%(seed)s, n), 256)), UNHEX('0000'))
FROM hashed ORDER BY n
"""

_RECURSION = {Flavour.MARIADB: "max_recursive_iterations", Flavour.MYSQL: "cte_max_recursion_depth"}


def load_sakila(server: DatabaseServer) -> None:
    """Create database `sakila` anew (47,273 rows). Raises SandboxError when a statement is refused."""
    load_sql(server, SAKILA / "sakila-mv-schema.sql", SAKILA / "sakila-mv-data.sql")


def create_orders(server: DatabaseServer, rows: int = 200_000, seed: int = 1) -> None:
    """Create table `shop.orders` anew with ids 1 to `rows`; the same seed gives the same rows."""
    server.execute(f"CREATE DATABASE IF NOT EXISTS {ORDERS_DATABASE} CHARACTER SET utf8mb4")
    with closing(server.connect(ORDERS_DATABASE)) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute(f"SET {_RECURSION[server.flavour]} = {_BATCH + 1}")
        cursor.execute("DROP TABLE IF EXISTS orders")
        cursor.execute(_CREATE_ORDERS)
        for low in range(1, rows + 1, _BATCH):
            cursor.execute(_FILL_ORDERS, {"low": low, "high": min(low + _BATCH - 1, rows), "seed": seed})
