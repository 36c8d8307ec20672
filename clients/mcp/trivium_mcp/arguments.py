"""Arguments of the tools: a fact, and the refusal of every argument that a tool does not have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from inspect import getdoc
from typing import Any

from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools.base import Tool
from mcp.types import ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field, ValidationError

_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")


class GivenFact(BaseModel):
    """A relation of two things, such as "Ana", "works at", "Bosch", and when it holds."""

    model_config = ConfigDict(extra="forbid")

    subject: str = Field(description="Whom or what it is about.", min_length=1)
    relation: str = Field(description='How both are related, such as "works at".', min_length=1)
    object: str = Field(description="Whom or what the subject is related to.", min_length=1)
    sentence: str = Field(default="", description="The fact as a sentence, if the three are none.")
    valid_from: datetime | None = Field(
        default=None, description="Since when it holds, with a zone; always if left out."
    )
    valid_to: datetime | None = Field(
        default=None, description="When it stopped holding, with a zone; it holds if left out."
    )
    closes: list[str] = Field(
        default=[],
        description="Ids of facts that no longer hold since this one does, as `recall` shows them.",
        max_length=64,
    )
    single_valued: bool = Field(
        default=False,
        description="Whether the subject has one such object at a time: earlier ones are closed.",
    )


class StrictTool(Tool):
    """A tool that refuses arguments which it does not have.

    A filter that is not applied is worse than an error, and models do make arguments up.
    """

    @classmethod
    def of(cls, function: Callable[..., Any], title: str, hints: ToolAnnotations) -> Tool:
        """The tool of a function, whose docstring is its description."""
        tool = cls.from_function(
            function,
            title=title,
            description=getdoc(function),  # without the indentation of the source
            annotations=hints,
            # Structured output would repeat the recalled text outside of its fence.
            structured_output=False,
        )
        model = tool.fn_metadata.arg_model
        model.model_config["extra"] = "forbid"  # which holds for what is nested in it too
        model.model_rebuild(force=True)
        tool.parameters = model.model_json_schema(by_alias=True)
        return tool

    async def run(
        self, arguments: dict[str, Any], context: Any, convert_result: bool = False
    ) -> Any:
        """Runs the tool.

        Raises:
            ToolError: The tool failed, or does not take these arguments.
        """
        try:
            return await super().run(arguments, context, convert_result)
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            faults = "; ".join(self._faults(error.__cause__))
            raise ToolError(f"{self.name}: {faults}") from error.__cause__

    def _faults(self, error: ValidationError) -> Iterable[str]:
        for each in error.errors(include_url=False):
            *path, name = map(str, each["loc"])
            field = ".".join((*path, name))
            if each["type"] in _UNKNOWN:
                taken = ", ".join(_fields(self.parameters, path))
                names = f"; {'.'.join(path) or self.name} takes {taken}" if taken else ""
                yield f"{field} is not taken{names}"
            else:
                yield f"{field}: {each['msg']}"


def _fields(schema: dict[str, Any], path: Iterable[str]) -> Iterable[str]:
    """The names of the fields of the object at a path of a JSON schema; none of alternatives."""
    node = schema
    for name in path:
        node = node["items"] if name.isdigit() and "items" in node else _field(node, name)
        references = [each["$ref"] for each in node.get("anyOf", [node]) if "$ref" in each]
        if len(references) == 1:
            node = schema["$defs"][references[0].rpartition("/")[2]]
    fields: dict[str, Any] = node.get("properties", {})
    return fields


def _field(node: dict[str, Any], name: str) -> dict[str, Any]:
    field: dict[str, Any] = node.get("properties", {}).get(name, {})
    return field
