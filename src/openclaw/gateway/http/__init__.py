"""HTTP beside the WebSocket protocol: OpenAI-compatible endpoints, tools, webhooks and the web page.

`routes` lists the paths. `endpoint.HttpEndpoint` checks method, credential, scope and size before a handler sees a
request; `requests` turns a request into a run and `stream` follows it; `completions`, `responses`, `embeddings`,
`tools` and `webhooks` are the handlers, `problems` the errors, `pages` the built web page, `metrics` what
`/metrics` shows, `certificates` the TLS certificate.

Start with `routes` and `endpoint`, then `completions`.
"""
