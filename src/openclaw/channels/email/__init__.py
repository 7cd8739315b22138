"""Email: a mailbox over IMAP and SMTP.

`wire` reads and writes mails as pure functions, `imap` is the connection to the mailbox, `channel` the account.
"""
