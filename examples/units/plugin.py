"""A tool: converts between units, for the model (`convert_units`) and for people (`/convert 3 km mi`)."""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from openclaw.plugin import Api, Command, CommandCall, FunctionTool, Output, ToolContext

METRES = {
    "mm": "0.001",
    "cm": "0.01",
    "m": "1",
    "km": "1000",
    "in": "0.0254",
    "ft": "0.3048",
    "yd": "0.9144",
    "mi": "1609.344",
}
GRAMS = {"mg": "0.001", "g": "1", "kg": "1000", "t": "1000000", "oz": "28.349523125", "lb": "453.59237"}
DEGREES = ("C", "F", "K")


class Unknown(ValueError):
    """Units that do not go together."""


def convert(value: Decimal, source: str, target: str) -> Decimal:
    """`value` in another unit."""
    for table in (METRES, GRAMS):
        if source in table and target in table:
            return value * Decimal(table[source]) / Decimal(table[target])
    if source in DEGREES and target in DEGREES:
        kelvin = {
            "C": value + Decimal("273.15"),
            "F": (value - 32) * 5 / 9 + Decimal("273.15"),
            "K": value,
        }[source]
        return {"C": kelvin - Decimal("273.15"), "F": (kelvin - Decimal("273.15")) * 9 / 5 + 32, "K": kelvin}[target]
    known = ", ".join((*METRES, *GRAMS, *DEGREES))
    raise Unknown(f"{source} does not become {target}; there are {known}")


def shown(value: Decimal, digits: int) -> str:
    rounded = round(value, digits)
    text = f"{rounded:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def register(api: Api) -> None:
    digits = int(api.config.get("digits", 4))

    def answer(value: str, source: str, target: str) -> str:
        return f"{shown(convert(Decimal(value), source, target), digits)} {target}"

    def tool(args: Mapping[str, Any], context: ToolContext) -> Output:
        try:
            return Output.of(answer(str(args["value"]), args["from"], args["to"]))
        except Unknown as error:
            return Output.failed(str(error))

    def command(call: CommandCall) -> str:
        try:
            value, source, target = call.args.split()
            return answer(value, source, target)
        except (ValueError, InvalidOperation) as error:
            return str(error) if isinstance(error, Unknown) else "write: /convert 3 km mi"

    parameters = {
        "value": {"type": "number", "description": "How much."},
        "from": {"type": "string", "description": "The unit it is in: km, lb, C …"},
        "to": {"type": "string", "description": "The unit wanted."},
    }
    described = "Converts lengths, weights and temperatures exactly. Use it instead of reckoning by yourself."
    api.tool(FunctionTool("convert_units", described, parameters, tool, required=("value", "from", "to")))
    api.command(Command(name="convert", description="convert between units", args="VALUE FROM TO", run=command))
