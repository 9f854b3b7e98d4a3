"""What pyproject.toml cannot say: the publisher's hot modules become C where MIGRATE_COMPILE=1.

Without it the package is plain Python, which is what a checkout runs. docs/decisions/0015 has the reasons.
"""

import os

from setuptools import setup

# All that runs for each event, row or transaction. Each stays plain Python that runs uncompiled too.
COMPILED = (
    "migrate/kafka/producer.py",
    "migrate/model/coordinate.py",
    "migrate/model/message.py",
    "migrate/model/message_reader.py",
    "migrate/publish/batches.py",
    "migrate/publish/emit.py",
    "migrate/publish/open_transaction.py",
    "migrate/publish/outbox.py",
    "migrate/publish/reader.py",
    "migrate/publish/table_maps.py",
    "migrate/publish/decode/cursor.py",
    "migrate/publish/decode/json_binary.py",
    "migrate/publish/decode/row_json.py",
    "migrate/publish/decode/rows.py",
    "migrate/publish/decode/tablemap.py",
    "migrate/publish/log/binlog.py",
    "migrate/publish/log/gtid.py",
    "migrate/publish/log/gtid_event.py",
    "migrate/publish/log/packets.py",
    "migrate/publish/log/progress.py",
    "migrate/publish/schema/statement.py",
)


def extensions() -> list:
    if os.environ.get("MIGRATE_COMPILE") != "1":
        return []
    from mypyc.build import mypycify  # a tool of the build alone

    return mypycify([*COMPILED], group_name="migrate_publish")


setup(ext_modules=extensions())
