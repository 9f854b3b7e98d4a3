"""One Spark session for the whole test run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.session import spark_session
from tests.helpers import make_settings


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    directory: Path = tmp_path_factory.mktemp("spark")
    with spark_session(make_settings(run_dir=str(directory)), "local[2]") as session:
        yield session
