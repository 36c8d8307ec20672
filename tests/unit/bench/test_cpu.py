from __future__ import annotations

from bench.cpu import CpuUse, per_request

BUSY = CpuUse(wall_s=10, by_role={"postgres": 1.0, "client": 3.0}, elsewhere_s=5)
IDLE = CpuUse(wall_s=5, by_role={"postgres": 0.1, "client": 0.0}, elsewhere_s=0)


def test_cpu_is_told_for_each_request_with_idling_over_an_equal_time() -> None:
    told = per_request(BUSY, IDLE, requests=100)

    assert told["total_ms"] == 40
    assert told["by_role_ms"] == {"postgres": 10, "client": 30}
    assert told["idle_by_role_ms"] == {"postgres": 2, "client": 0}
    assert told["idle_ms"] == 2


def test_strangers_on_the_machine_are_told_apart() -> None:
    told = per_request(BUSY, None, requests=100)

    assert (told["cores_used"], told["cores_elsewhere"]) == (0.4, 0.5)
    assert told["idle_by_role_ms"] == {}
