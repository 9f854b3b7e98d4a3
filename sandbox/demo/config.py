"""The demo's config file: Sakila and the orders, over two target servers."""

from __future__ import annotations

from pathlib import Path

from sandbox import snippet
from sandbox.stack import Sandbox

STATE = "migrate_state"

_DATABASES = """\
databases:
  ds_0: {target: target1, database: shop_0}
  ds_1: {target: target1, database: shop_1}
  ds_2: {target: target2, database: shop_2}
  ds_3: {target: target2, database: shop_3}
  ds_sakila: {target: target1, database: sakila}
"""

# Times are shortened, so that the demo shows in minutes what production does in hours. No writer of it deletes parents.
TIMES = """\
consume: {merge_interval_seconds: 1, idle_seconds: 1}
commit: {idle_seconds: 1, cleanup_interval_seconds: 15, cleanup_age_seconds: 30}
delay: {tiers_seconds: [3, 6]}
cutover: {stop: application, acknowledge_seconds: 30, freeze_seconds: 60, max_lag_seconds: 60, cascades: unused}
verify: {recheck_seconds: 1, rechecks: 4}
"""

_SHARDED = """\
  - name: shop.orders
    sharding:
      nodes: "ds_${0..3}.orders_${0..3}"
      database: {column: user_id, algorithm: INLINE, props: {algorithm-expression: "ds_${user_id % 4}"}}
      table: {column: id, algorithm: INLINE, props: {algorithm-expression: "orders_${id % 4}"}}
  - name: shop.carts
    sharding:
      nodes: "ds_${0..3}.carts_${0..3}"
      database: {column: user_id, algorithm: MOD, props: {sharding-count: 4}}
      table: {column: id, algorithm: MOD, props: {sharding-count: 4}}
  - name: sakila.payment
    sharding:
      nodes: "ds_${0..3}.payment_${0..3}"
      database: {column: customer_id, algorithm: MOD, props: {sharding-count: 4}}
      table: {column: payment_id, algorithm: MOD, props: {sharding-count: 4}}
  - name: sakila.rental
    sharding:
      nodes: "ds_${0..3}.rental_${0..3}"
      database: {column: customer_id, algorithm: BOUNDARY_RANGE, props: {sharding-ranges: "150,300,450"}}
      table: {column: customer_id, algorithm: MOD, props: {sharding-count: 4}}
"""

_WHOLE = [
    *("actor", "address", "category", "city", "country", "customer", "film", "film_actor", "film_category"),
    *("film_text", "inventory", "language", "staff", "store"),
]


def text(box: Sandbox, directory: Path) -> str:
    """The YAML; passwords are left to the environment (`snippet.environment`)."""
    whole = [f"  - name: sakila.{name}\n    sharding: {{nodes: ds_sakila.{name}}}\n" for name in _WHOLE]
    return "".join(
        [
            "name: demo\n",
            snippet.config(box),
            _DATABASES,
            TIMES,
            "lease: {seconds: 4}\n",
            f"run_dir: {directory}\n",
            "tables:\n",
            _SHARDED,
            *whole,
        ]
    )
