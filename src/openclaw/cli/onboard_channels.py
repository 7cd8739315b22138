"""The question of `openclaw onboard` about other places to talk: channels that installed plugins bring."""

from collections.abc import Callable, Collection, Sequence

import click

from openclaw.core.errors import InvalidRequest

NONE = "   Other places to talk come as plugins: openclaw plugins install DIRECTORY, then run this again."


def available() -> tuple[dict[str, str], list[str]]:
    """The channels of plugins that run, each with its plugin; and what to know about those that do not."""
    from openclaw.cli.plugins_show import PluginView

    here = PluginView()
    running: dict[str, str] = {}
    notes = []
    for plugin in here.found:
        verdict = here.verdicts[plugin.id]
        if verdict.runs:
            running |= dict.fromkeys(plugin.manifest.channels, plugin.id)
        elif plugin.manifest.channels:
            notes.append(f"{', '.join(plugin.manifest.channels)} could be one, but {verdict.why}")
    return running, notes


def owners_in(text: str, channels: Collection[str]) -> tuple[str, ...]:
    """`channel:id` by `channel:id`, as somebody typed them; says what is wrong with one that is not."""
    given = [part for part in text.replace(",", " ").split() if part]
    for each in given:
        channel, _, name = each.partition(":")
        if not name or channel not in channels:
            known = " or ".join(f"{known}:your-id" for known in channels) or "a channel of a plugin; none is installed"
            raise InvalidRequest(f"{each!r} names nobody on a channel: write {known}")
    return tuple(dict.fromkeys(given))


def ask_owner(channels: Collection[str], now: Sequence[str], say: Callable[[str], None]) -> tuple[str, ...]:
    """Question three, until its answer makes sense."""
    from openclaw.core.visible import printable

    here = [each for each in now if each.partition(":")[0] in channels]
    say(f"3. You can also talk to it on: {', '.join(printable(each) for each in channels)}.")
    say("   Strangers are not heard there until you let them in. Who are you there?")
    first = next(iter(channels))
    hint = f"as it is: {printable(', '.join(here))}" if here else "nobody for now"
    while True:
        typed = click.prompt(f"   such as {first}:your-id (Enter: {hint})", default="", show_default=False)
        try:
            return owners_in(typed, channels)
        except InvalidRequest as error:
            say(f"   {printable(error.message)}")
