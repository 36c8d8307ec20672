"""The values that are counted in hostile messages, compared with those that the parser finds."""

from __future__ import annotations

from typing import Any

import pytest

from serving.rpc.message_bounds import wire_values
from serving.rpc.registration import METHODS
from tests.security.hostile import Hostility


def fields_in(message: Any) -> int:
    """The fields of a message and of those in it, with each value of a repeated one."""
    count = 0
    for field, value in message.ListFields():
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            of_value = field.message_type.fields_by_name["value"].message_type
            inner = [fields_in(each) if of_value else 0 for each in value.values()]
            count += sum(3 + each for each in inner)
        elif field.message_type is not None:
            count += sum(1 + fields_in(each) for each in (value if field.is_repeated else [value]))
        elif field.is_repeated and field.type == field.TYPE_STRING:
            count += len(value)
        else:
            count += 1
    return count


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.name)
def test_fields_of_messages_are_all_counted(method: Any) -> None:
    hostility = Hostility(1, {})
    for _ in range(20):
        message = hostility.message(method.input_type)
        encoded = message.SerializeToString()

        # A value of a map that is empty may be left out.
        assert wire_values(encoded, method.input_type, 10**6) <= fields_in(message)
        assert 3 * wire_values(encoded, method.input_type, 10**6) >= fields_in(message)
