"""The `browser` tool: Chromium, driven by Playwright in a worker process.

`tool` (`BrowserTool`, `Browsers`) is our side, `worker` the worker process with its filtering proxy, `actions` the tabs
and the actions on a page, `schema` the parameters.

Start with `tool`.
"""
