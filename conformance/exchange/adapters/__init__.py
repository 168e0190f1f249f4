"""One adapter for each library; `conformance.exchange.measure.Adapter` says what it consists of."""
