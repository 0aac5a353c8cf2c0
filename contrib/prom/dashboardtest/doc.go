// Package dashboardtest checks what Prometheus makes of the metrics of
// contrib/prom, and that dashboard.json asks for what is there. It runs Prometheus'
// own parsers, storage and query engine, and is a module of its own to keep these
// from those who use contrib/prom.
package dashboardtest
