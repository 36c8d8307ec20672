"""Every RPC, by every role, for every tenant, with every credential, by gRPC and by HTTP.

The RPCs are read from the protos: one without a rule, or without an entry here, fails.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2

import trivium.v1
from serving.config.profiles import ProfileBook
from serving.domain.identity import Caller, Role
from serving.domain.items.records import TenantName
from serving.http.application import asgi_application
from serving.rpc.identity.authenticator import OPEN, Authenticator
from serving.rpc.identity.rules import RULES
from serving.rpc.registration import METHODS
from serving.rpc.service import TriviumService
from tests.fakes.store import InMemoryStore
from tests.unit.http.requesting import requested
from tests.unit.rpc.calling import Call, service_over
from tests.unit.rpc.identity.callers import OURS, THEIRS, Door, bearer, door

DENIED = {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}
ADMITTED = {
    grpc.StatusCode.OK,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.INTERNAL,
}
PROFILES = ProfileBook.load()
NO_USE_CASES: Any = None
"""An admitted call then fails by itself."""

MAY_CALL: Mapping[Role, set[str]] = {
    Role.READER: {
        *(
            "Retrieve",
            "RetrieveBatch",
            "RetrieveStream",
            "DescribeEntity",
            "Warm",
            "Compare",
            "ExplainAbsence",
            "ListProfiles",
        ),
        *("GetSegments", "GetFacts", "ListSegments", "ListFacts", "WatchChanges", "GetStats"),
    },
    Role.WRITER: {"Ingest", "IngestStream", "Patch"},
    Role.ERASER: {"Forget"},
    Role.ADMIN: {"ListTenants", "ListAuditEntries", "ListKeys", "CreateKey", "RevokeKey"},
}
OF_ALL_TENANTS = {"ListTenants", "ListKeys", "CreateKey", "RevokeKey"}
"""For callers that are bound to no tenant."""
OF_ANY_TENANT = {*OF_ALL_TENANTS, "ListProfiles", "ListAuditEntries"}
"""Those that are answered if no tenant is named."""
WITHOUT_TENANT = {"ListProfiles", *OF_ALL_TENANTS}
LONG = 40
"""The characters at the end of a key or a token that are of its secret or its signature."""


def with_tenant(method: MethodDescriptor, tenant: str) -> Message:
    """A request of a method that names a tenant, wherever its message has one."""
    request: Any = GetMessageClass(method.input_type)()
    named = request.retrieve if "retrieve" in method.input_type.fields_by_name else request
    if "tenant" in named.DESCRIPTOR.fields_by_name:
        named.tenant = tenant
    if method.name == "ExplainAbsence":
        request.item.segment_id = "s1"  # it is read before the tenant
    return request  # type: ignore[no-any-return]


async def called(
    method: MethodDescriptor, request: Message, call: Call, authenticator: Authenticator
) -> None:
    """Calls the service as Ray Serve does."""
    service = TriviumService(NO_USE_CASES, PROFILES, authenticator=authenticator)
    call.code = grpc.StatusCode.OK
    given = _stream(request) if method.client_streaming else request
    answered = getattr(service, method.name)(given, call)
    if method.server_streaming:
        async for _ in answered:
            pass
    else:
        await answered


async def called_by_http(
    method: MethodDescriptor, request: Message, call: Call, authenticator: Authenticator
) -> None:
    """Calls the service by HTTP, in the Connect protocol."""
    service = TriviumService(NO_USE_CASES, PROFILES, authenticator=authenticator)
    answer = await requested(
        asgi_application(service),
        "POST",
        f"/{method.containing_service.full_name}/{method.name}",
        content=request.SerializeToString(),
        headers=[("content-type", "application/proto"), *call.metadata],
    )
    refused = {} if answer.status_code == 200 else answer.json()
    call.code = grpc.StatusCode[refused.get("code", "ok").upper()]
    call.details = refused.get("message", "")


def _calls() -> Iterator[Any]:
    """Each RPC by gRPC, and each that is no stream by HTTP."""
    for name, method in METHODS.items():
        yield pytest.param(method, called, id=name)
        if not (method.client_streaming or method.server_streaming):
            yield pytest.param(method, called_by_http, id=f"{name} by HTTP")


Called = Callable[[MethodDescriptor, Message, Call, Authenticator], Awaitable[None]]
BY_BOTH = pytest.mark.parametrize(("method", "by"), list(_calls()))


async def _stream(request: Message) -> AsyncIterator[Message]:
    yield request


@pytest.fixture(scope="module")
async def gate() -> Door:
    return await door()


def may(caller: Caller, method: str, named: str) -> bool:
    role = next(iter(caller.roles))
    allowed = role is Role.ADMIN or method in MAY_CALL[role]
    if method in OF_ALL_TENANTS:
        return allowed and caller.tenants is None
    return allowed and (
        method in WITHOUT_TENANT or caller.tenants is None or named in {"", *caller.tenants}
    )


def test_rpcs_and_rules_correspond() -> None:
    files = [
        importlib.import_module(f"trivium.v1.{path.stem}").DESCRIPTOR
        for path in Path(trivium.v1.__path__[0]).glob("*_pb2.py")
    ]
    services = [service for file in files for service in file.services_by_name.values()]
    in_protos = {method.name for service in services for method in service.methods}

    assert set(RULES) == in_protos == set(METHODS) == set().union(*MAY_CALL.values())


@BY_BOTH
@pytest.mark.parametrize("named", ["", OURS, THEIRS])
async def test_caller_may_do_as_role_and_tenant_allow(
    method: MethodDescriptor, by: Called, named: str, gate: Door
) -> None:
    for who, (call, caller) in gate.accepted.items():
        request = with_tenant(method, named)

        await by(method, request, call, gate.authenticator)

        admitted = may(caller, method.name, named)
        assert call.code in (ADMITTED if admitted else DENIED), (who, call)
        if by is called and admitted and caller.tenants and method.name not in WITHOUT_TENANT:
            named_in: Any = getattr(request, "retrieve", request)
            assert named_in.tenant == OURS, who


SEVERAL = ("Retrieve", "RetrieveBatch", "RetrieveStream", "Compare", "ExplainAbsence")
OF_ONE = {"RetrieveBatch", "Compare", "ExplainAbsence"}
"""They answer no request to several tenants."""


def with_tenants(method: MethodDescriptor, *names: str) -> Message:
    """A request of a method that names several tenants."""
    request: Any = with_tenant(method, "")
    if method.name == "RetrieveBatch":
        request.tenant = OURS
        named = request.requests.add()
    else:
        named = request.retrieve if method.name != "Retrieve" else request
    named.query = "?"
    for name in names:
        named.tenants.add(tenant=name)
    return request  # type: ignore[no-any-return]


@BY_BOTH
async def test_caller_must_be_allowed_each_tenant(
    method: MethodDescriptor, by: Called, gate: Door
) -> None:
    if method.name not in SEVERAL:
        return
    for who, (call, caller) in gate.accepted.items():
        await by(method, with_tenants(method, OURS, THEIRS), call, gate.authenticator)

        if caller.tenants is None and may(caller, method.name, OURS):
            assert call.code in ADMITTED, who
        elif method.name == "RetrieveBatch" and may(caller, method.name, OURS):
            assert call.code is grpc.StatusCode.INVALID_ARGUMENT, who
        else:
            assert call.code is grpc.StatusCode.PERMISSION_DENIED, who


@pytest.mark.parametrize("method", sorted(OF_ONE))
async def test_answer_about_one_tenant_refuses_several(method: str) -> None:
    request, call = with_tenants(METHODS[method], OURS, THEIRS), Call()

    await called(METHODS[method], request, call, OPEN)

    assert call.code is grpc.StatusCode.INVALID_ARGUMENT
    assert "tenants: must be empty" in call.details


def accepting(*tenants: TenantName, role: Role = Role.ADMIN) -> Authenticator:
    """Takes any token for one of these tenants."""
    bot = Caller(name="bot", roles=frozenset({role}), tenants=frozenset(tenants))
    return Authenticator(tokens=lambda _: bot)


async def test_only_tenant_of_a_caller_is_filled_in() -> None:
    request: Any = with_tenants(METHODS["Retrieve"], "")

    await called(METHODS["Retrieve"], request, bearer("a.b.c"), accepting(OURS, role=Role.READER))

    assert [each.tenant for each in request.tenants] == [OURS]
    assert request.tenant == ""


@BY_BOTH
async def test_without_a_tenant_nothing_is_answered(
    method: MethodDescriptor, by: Called, gate: Door
) -> None:
    of_all = [
        (gate.authenticator, call)
        for call, caller in gate.accepted.values()
        if caller.tenants is None and may(caller, method.name, "")
    ]
    for authenticator, call in [(OPEN, Call()), *of_all]:
        await by(method, with_tenant(method, ""), call, authenticator)

        if authenticator is OPEN and RULES[method.name].outlasts:
            assert call.code is grpc.StatusCode.PERMISSION_DENIED, call
        elif method.name in OF_ANY_TENANT:
            assert call.code in ADMITTED, call
        else:
            assert call.code is grpc.StatusCode.INVALID_ARGUMENT, call
            assert "tenant: must not be blank" in call.details


@pytest.mark.parametrize("method", sorted(set(METHODS) - WITHOUT_TENANT))
async def test_credentials_of_several_tenants_do_not_choose_one(method: str) -> None:
    request, call = with_tenant(METHODS[method], ""), bearer("a.b.c")

    await called(METHODS[method], request, call, accepting(OURS, THEIRS))

    assert call.code is grpc.StatusCode.PERMISSION_DENIED


@BY_BOTH
async def test_without_valid_credentials_nothing_is_answered(
    method: MethodDescriptor, by: Called, gate: Door
) -> None:
    for who, call in gate.rejected.items():
        await by(method, with_tenant(method, OURS), call, gate.authenticator)

        assert call.code in DENIED, who


async def test_health_is_open_to_every_caller(gate: Door) -> None:
    service = service_over({"store": InMemoryStore()}, authenticator=gate.authenticator)
    request = health_pb2.HealthCheckRequest()

    for call in (Call(), *gate.rejected.values()):
        listed = await service.List(health_pb2.HealthListRequest(), call)
        answers = [await service.Check(request, call), listed.statuses[""]]
        answers.append(await anext(service.Watch(request, call)))

        assert {answer.status for answer in answers} == {health_pb2.HealthCheckResponse.SERVING}


@BY_BOTH
async def test_no_credentials_are_logged(
    method: MethodDescriptor, by: Called, gate: Door, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    calls = [*(call for call, _ in gate.accepted.values()), *gate.rejected.values()]
    for call in calls:
        await by(method, with_tenant(method, OURS), call, gate.authenticator)

    logged = f"{caplog.text} {[vars(record) for record in caplog.records]}"
    secrets = {str(value)[-LONG:] for call in calls for _, value in call.metadata}
    assert len([record for record in caplog.records if record.getMessage() == "call"]) == len(calls)
    assert [each for each in secrets if len(each) == LONG and each in logged] == []
