from __future__ import annotations

from bench.harness.cpu import CpuUse, per_request

BUSY = CpuUse(wall_s=10, by_role={"postgres": 1.0, "client": 3.0}, elsewhere_s=5)
IDLE = CpuUse(wall_s=5, by_role={"postgres": 0.1, "client": 0.0}, elsewhere_s=0)


def test_cpu_is_told_for_each_request_with_idling_over_an_equal_time() -> None:
    measured = per_request(BUSY, IDLE, requests=100)

    assert measured["total_ms"] == 40
    assert measured["by_role_ms"] == {"postgres": 10, "client": 30}
    assert measured["idle_by_role_ms"] == {"postgres": 2, "client": 0}
    assert measured["idle_ms"] == 2


def test_unrelated_processes_are_counted_apart() -> None:
    measured = per_request(BUSY, None, requests=100)

    assert (measured["cores_used"], measured["cores_elsewhere"]) == (0.4, 0.5)
    assert measured["idle_by_role_ms"] == {}
