# The default target prints this help.
.DEFAULT_GOAL := help

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

check: ## everything CI runs: vet, staticcheck, tests, race, 386
	bash scripts/check

test: ## the quick tests
	go test ./...

race: ## the tests under the race detector
	go test -race ./...

fuzz: ## every fuzz target for 30 s
	@for f in $$(grep -ho 'func Fuzz[A-Za-z]*' *_test.go | cut -c6-); do \
		go test -run '^$$' -fuzz "^$$f$$" -fuzztime 30s . || exit 1; done

bench: ## shoal beside its peers, about an hour; the report is in figures/
	go run ./cmd/shoal bench -out figures

quick: ## a few rows of that, under two minutes
	go run ./cmd/shoal bench -quick

cover: ## coverage of the root package by the quick tests
	go test -coverprofile=cover.out . && go tool cover -func=cover.out | tail -1

.PHONY: help check test race fuzz bench quick cover
