"""How the benchmark's figures become ratios."""

from __future__ import annotations

from typing import Any

from bench import capture


def runs(*figures: tuple[float, float]) -> list[Any]:
    return [{"rows_per_second": rows, "cpu_microseconds_per_row": cpu} for rows, cpu in figures]


def test_ratios_are_of_medians_and_the_worse_workload_decides() -> None:
    measured = {
        "large": {
            "migrate": runs((90, 12), (100, 10), (5000, 11)),
            "debezium": runs((25, 44), (20, 40), (1, 48)),
        },
        "small": {
            "migrate": runs((60, 30), (80, 20), (70, 25)),
            "debezium": runs((10, 50), (10, 50), (10, 50)),
        },
    }
    found = capture._ratios(measured, "debezium")
    assert (found["ratio_large_tx"], found["ratio_small_tx"]) == (5.0, 7.0)
    assert (found["ratio_cpu_large_tx"], found["ratio_cpu_small_tx"], found["ratio_cpu"]) == (0.25, 0.5, 0.5)
    assert found["bar"] == {"ratio_large_tx": 1.8, "ratio_small_tx": 4, "ratio_cpu": 0.4}
    assert found["ratio_to_peer"] == 1.75  # 7 / 4, which is below 5 / 1.8
    measured["large"]["debezium"] = runs((100, 40), (100, 40), (100, 40))
    assert capture._ratios(measured, "debezium")["ratio_to_peer"] == 0.556
