"""HTTP: Connect's unary protocol, plain routes, and the endpoints of the published designs.

All of them call the methods of `serving.rpc.service.TriviumService`, as gRPC does: this package
reads and writes JSON, and has no rules of its own about callers, tenants, limits or deadlines.
"""
