# The default target prints this help.
.DEFAULT_GOAL := help

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

check: test ## everything CI runs: vet, staticcheck, tests, race, 386, models, a quarter of an hour
	bash scripts/check

test: ## the quick tests
	go test ./...

race: ## the tests under the race detector
	go test -race ./...

explore: ## the kernel under every schedule of small programs, a few minutes
	bash scripts/explore

mutants: ## break the code in many ways; each must be noticed, a few minutes
	go run ./internal/mutants

torture: ## 1,000,000,000 tasks, each with a word that must be written once
	go test -run '^TestTorture$$' -timeout 0 -v ./tests -torture.tasks 1000000000

histories: ## 100,000 histories of the parallel pool, checked for linearizability
	cd tests/linear && go test -timeout 0 -v -histories 100000

fuzz: ## every fuzz target for FUZZTIME (30s)
	bash scripts/fuzz $(or $(FUZZTIME),30s)

nightly: ## all that takes longer: explore, mutants, torture, histories, fuzz
	bash scripts/nightly

chaos: ## processes that work off a durable queue, killed over and over, a few minutes
	bash scripts/chaos

bench: ## shoal beside its peers, about an hour; the report is in figures/
	go run ./cmd/shoal-bench -out figures

quick: ## a few rows of that, under two minutes
	go run ./cmd/shoal-bench -quick

api: ## compare what the packages export with internal/api/; scripts/api -update records what was added
	bash scripts/api

tidy: ## go mod tidy in every module
	bash scripts/tidy

shape: ## count what makes the code easy or hard to enter; nothing may be more than it was
	go run ./internal/shape

cover: ## coverage of the root package by the quick tests
	go test -coverpkg=. -coverprofile=cover.out . ./tests && go tool cover -func=cover.out | tail -1

.PHONY: help check test race explore mutants torture histories fuzz nightly chaos bench quick api tidy shape cover
