"""Whether a plugin's settings fit the schema in its manifest.

Both come from elsewhere, and a schema can be made to take for ever; so it is used where the
plugin runs.
"""

from collections.abc import Mapping
from typing import Any, NoReturn


def problem(schema: Mapping[str, Any], value: Mapping[str, Any], where: str) -> str:
    """What is wrong with `value`, as one line; empty when nothing is."""
    if not value and not schema.get("required"):
        return ""
    import fastjsonschema

    try:
        # Extending the value with the schema's defaults is left to the plugin: the operator's file says what is set.
        check = fastjsonschema.compile(
            {"additionalProperties": False, **schema},
            handlers={"http": _nowhere, "https": _nowhere, "file": _nowhere, "": _nowhere},
            use_default=False,
        )
        check(dict(value))
    except fastjsonschema.JsonSchemaValueException as error:
        path = ".".join(str(part) for part in error.path[1:])
        return f"{where}{f'.{path}' if path else ''}: {_said(error.message, error.name)}"
    except fastjsonschema.JsonSchemaDefinitionException as error:
        return f"the plugin's configSchema cannot be used: {error}"
    except RecursionError:
        return "the plugin's configSchema refers to itself without end"
    return ""


def _said(message: str, name: str | None) -> str:
    return message.removeprefix(str(name)).strip() if name else message


def _nowhere(address: str) -> NoReturn:
    import fastjsonschema

    raise fastjsonschema.JsonSchemaDefinitionException(f"it refers to {address}; put everything into the manifest")
