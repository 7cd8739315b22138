"""Many gateways on one PostgreSQL: who is there, who holds which agent, and how they speak to each other.

Read `placement` (the decisions), then `member` (this node: its lease, its agents), `runs` (inputs that any node accepts
and the holder carries out), `peers` (links between nodes), `relay` (what happens on one node is heard on all) and
`methods` (requests go to the holder). Loaded only when `store.url` names a server.
"""
