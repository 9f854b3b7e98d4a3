"""The config file as frozen, validated models: one YAML file, every key named, secrets from the environment.

Others use `model.Settings`, `servers.Source`, `tables.TableSettings`, `loading.load` and `loading.load_with_text`.
`load(path)` is the only way in. Every mistake becomes one `ConfigError` line that names the key.
"""

from migrate.settings.alarms import Alarms as Alarms
from migrate.settings.alarms import Receiver as Receiver
from migrate.settings.cutover import Cutover as Cutover
from migrate.settings.cutover import Hooks as Hooks
from migrate.settings.loading import load as load
from migrate.settings.loading import load_with_text as load_with_text
from migrate.settings.loading import parse as parse
from migrate.settings.model import Commit as Commit
from migrate.settings.model import Connections as Connections
from migrate.settings.model import Consume as Consume
from migrate.settings.model import Copy as Copy
from migrate.settings.model import Database as Database
from migrate.settings.model import Delay as Delay
from migrate.settings.model import Failover as Failover
from migrate.settings.model import Kafka as Kafka
from migrate.settings.model import Lease as Lease
from migrate.settings.model import Logging as Logging
from migrate.settings.model import Settings as Settings
from migrate.settings.model import Throttle as Throttle
from migrate.settings.model import Verify as Verify
from migrate.settings.publish import Publish as Publish
from migrate.settings.secrets import secrets_of as secrets_of
from migrate.settings.servers import Server as Server
from migrate.settings.servers import Source as Source
from migrate.settings.servers import State as State
from migrate.settings.servers import Target as Target
from migrate.settings.tables import RowCondition as RowCondition
from migrate.settings.tables import SourceDatabase as SourceDatabase
from migrate.settings.tables import TableSettings as TableSettings
from migrate.settings.tls import CarriedTls as CarriedTls
from migrate.settings.tls import Tls as Tls
from migrate.settings.web import Certificate as Certificate
from migrate.settings.web import Web as Web
