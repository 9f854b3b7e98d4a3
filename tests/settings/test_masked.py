"""The config's text as the state keeps it: without a secret, however it is written."""

from __future__ import annotations

import pytest
import yaml

from migrate.config_text import masked

SECRET = "canary-4711"


@pytest.mark.parametrize(
    "text",
    [
        f"state: {{host: a, password: {SECRET}}}\n",
        f"state: {{host: a, password: '{SECRET} with ''quotes'''}}\n",
        f'state:\n  password: "{SECRET} with \\"quotes\\""\n  port: 1\n',
        f"state:\n  password: |\n    {SECRET}\n    and more {SECRET}\n  port: 1\n",
        f"state:\n  password: >-\n    {SECRET}\n\n    {SECRET}\nname: shop\n",
        f"state:\n  password: {SECRET} with blanks, and a comma\n  port: 1\n",
        f"web: {{token: {SECRET}}}\n",
        f"web:\n  tokens: [{SECRET}, '{SECRET}']\n",
        f"web: {{tokens: {{web-1: {SECRET}, 'web 2': \"{SECRET}\"}}, tls: {{key: a.pem}}}}\n",
        f"web:\n  tokens:\n    web-1: {SECRET}\n    web-2: >-\n      {SECRET}\n  listen: 127.0.0.1:1\n",
        f"web: {{tokens: {{web-1: '${{WEB_1}}'}}}}\n# tokens: {SECRET}\n",
        f"kafka:\n  security:\n    ssl.key.pem: |\n      -----BEGIN\n      {SECRET}\n    sasl.password: {SECRET}\n",
        f"kafka: {{security: {{ssl.key.password: {SECRET}, ssl.keystore.password: {SECRET}}}}}\n",
        f"kafka: {{security: {{sasl.jaas.config: 'org.x required password=\"{SECRET}\";'}}}}\n",
        f"x: &pw {SECRET}\nstate: {{password: *pw}}\n",
        f"name: shop  # the password: {SECRET}\nstate: {{password: '${{PW}}'}}\n",
        f'{{"state": {{"password": "{SECRET}", "port": 3306}}}}\n',
    ],
)
def test_no_secret_is_kept_however_it_is_written(text: str) -> None:
    """Lost to whoever reads the state: tokens, keys of TLS, and passwords in quotes or blocks."""
    found = masked(text)
    assert SECRET not in found
    assert "***" in found
    assert _shape(yaml.safe_load(found)) == _shape(yaml.safe_load(text)), "it is the same config"


def test_all_else_stays_as_it_is() -> None:
    text = (
        "# passwords come from the environment\nname: shop\n"
        "state: {host: a, password: '${STATE_PW}', database: tokens}\n"
        "tables:\n  - {name: shop.passwords, key: [id], sharding: {nodes: 'ds_0.t'}}\n"
    )
    assert masked(text) == text


def _shape(value: object) -> object:
    if isinstance(value, dict):
        return {key: _shape(item) for key, item in value.items()}
    return [_shape(item) for item in value] if isinstance(value, list) else type(value)
