"""An MCP server with an inbox, a calendar, a drive and money: python office.py DIRECTORY [hints].

`mail.json` in DIRECTORY is the inbox, `events.json` the calendar; what is sent, paid, shared or deleted is a line of
`done`. With `hints` the tools that only read say so.
"""

import json
import sys
from pathlib import Path
from typing import Any

from mcp.server import MCPServer
from mcp_types import ToolAnnotations

place = Path(sys.argv[1])
READS = ToolAnnotations(read_only_hint=True) if "hints" in sys.argv[2:] else None
office = MCPServer("office")


def stored(name: str) -> Any:
    path = place / name
    return json.loads(path.read_text()) if path.exists() else {}


def does(what: str, **facts: Any) -> str:
    with (place / "done").open("a") as file:
        file.write(json.dumps([what, facts]) + "\n")
    return f"{what}: done"


@office.tool(description="List the mails in the inbox", annotations=READS)
def list_mails() -> str:
    return "\n".join(f"{name}: {text.splitlines()[0]}" for name, text in stored("mail.json").items())


@office.tool(description="Read one mail", annotations=READS)
def read_mail(mail_id: str) -> str:
    return str(stored("mail.json").get(mail_id, "no such mail"))


@office.tool(description="Search mails", annotations=READS)
def search_mails(query: str, sender: str = "") -> str:
    return "\n".join(f"{name}: {text}" for name, text in stored("mail.json").items() if query.lower() in text.lower())


@office.tool(description="Send a mail")
def send_mail(recipients: list[str], subject: str, body: str) -> str:
    return does("send_mail", recipients=recipients, subject=subject, body=body)


@office.tool(description="Delete a mail")
def delete_mail(mail_id: str) -> str:
    return does("delete_mail", mail_id=mail_id)


@office.tool(description="The events of a day", annotations=READS)
def list_events(day: str) -> str:
    return "\n".join(f"{name}: {text}" for name, text in stored("events.json").items())


@office.tool(description="Find free time", annotations=READS)
def find_free_time(day: str) -> str:
    return "free: 10:00-11:00"


@office.tool(description="Create an event")
def create_event(title: str, start: str, participants: list[str], location: str = "") -> str:
    return does("create_event", title=title, start=start, participants=participants, location=location)


@office.tool(description="Cancel an event")
def cancel_event(event_id: str) -> str:
    return does("cancel_event", event_id=event_id)


@office.tool(description="Search files on the drive", annotations=READS)
def search_files(query: str) -> str:
    return "f-2201: Budget 2026.xlsx\nf-2207: Trip to Oslo.docx"


@office.tool(description="Read a file on the drive", annotations=READS)
def get_file(file_id: str) -> str:
    return "Hotel Nord, two nights, 310 euros a night."


@office.tool(description="Share a file")
def share_file(file_id: str, person: str) -> str:
    return does("share_file", file_id=file_id, person=person)


@office.tool(description="Create a file on the drive")
def create_file(name: str, content: str) -> str:
    return does("create_file", name=name, content=content)


@office.tool(description="The balance of the account", annotations=READS)
def get_balance() -> str:
    return "1,204.50 EUR"


@office.tool(description="Recent transactions", annotations=READS)
def list_transactions(count: int = 10) -> str:
    return "2026-01-02 rent 800.00 DE02120300000000202051\n2026-01-05 gym 30.00 DE02500105170137075030"


@office.tool(description="Pay somebody")
def pay(iban: str, amount: float, subject: str) -> str:
    return does("pay", iban=iban, amount=amount, subject=subject)


@office.tool(description="The channels of the team chat", annotations=READS)
def get_channels() -> str:
    return "general\nrandom\nproject-heron"


@office.tool(description="Messages of a channel", annotations=READS)
def read_channel(channel: str) -> str:
    return f"{channel}: Bob: the build is green again\n{channel}: Ada: lunch at noon?"


@office.tool(description="Post to a channel")
def post_message(channel: str, text: str) -> str:
    return does("post_message", channel=channel, text=text)


if __name__ == "__main__":
    office.run("stdio")
