"""What Serve's context of a call tells of its deadline."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ray.serve._private import replica
from ray.serve.grpc_util import RayServegRPCContext

from serving.deployments import ingress


def call_of(left_s: float | None) -> Any:
    """The part of gRPC's context that Serve's copies."""
    return SimpleNamespace(
        auth_context=dict,
        code=lambda: None,
        details=lambda: None,
        invocation_metadata=lambda: (("request_id", "r-1"),),
        peer=lambda: "",
        peer_identities=lambda: None,
        peer_identity_key=lambda: None,
        trailing_metadata=tuple,
        time_remaining=lambda: left_s,
    )


def test_contexts_of_replicas_know_the_call_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica, ingress.CONTEXT, RayServegRPCContext)

    ingress.know_the_time_of_calls()
    ingress.know_the_time_of_calls()

    made = getattr(replica, ingress.CONTEXT)
    assert made(call_of(60)).request_id() == "r-1"
    assert made(call_of(60)).time_remaining() == pytest.approx(60, abs=1)
    assert made(call_of(None)).time_remaining() is None


def test_a_version_of_ray_without_these_contexts_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(replica, ingress.CONTEXT)

    with pytest.raises(RuntimeError, match="unsupported version of Ray"):
        ingress.know_the_time_of_calls()
