"""What `mrql stream` writes answers to; the protocol is in `mrql.runtime.sinks.sink`."""
