# Leash: `make test` is the whole check, `make build` the binary.
#
#   make quick                         what a change is likely to break, in a minute: no race detector, no cluster
#   make test                          format, go.mod, vet, staticcheck, all tests under the race detector
#   make build                         bin/leash, static, stamped with the version
#   make release                       dist/: archives, deb, rpm, SBOM and checksums; the build is reproducible
#   make docs-check                    the pages: links, plain sentences, nothing undocumented, examples run; comments
#   make interop                       client libraries in six languages through Leash, and Redisson beside it
#   make interop INTEROPFLAGS='--only jedis --verbose', or INTEROPFLAGS=--tls for TLS on both sides of Leash
#   make examples                      the examples in Python, JavaScript and Java
#   make nemesis NEMESISFLAGS='--for 1h' faults at random, and a check that no lock ever had two holders
#   make fuzz FUZZTIME=10s FUZZ=Parser a minute, or as long as you say, of each fuzz target whose name matches
#   make bench BENCHFLAGS='--rounds 5' Leash beside direct Redis and other proxies; BENCHFLAGS=locks for its locks
#   make go-test TESTFLAGS='-run Lock' tests alone, with flags of your own

GO           ?= go
STATICCHECK  ?= honnef.co/go/tools/cmd/staticcheck@v0.7.0
TESTFLAGS    ?= -timeout 25m -parallel 8
QUICKFLAGS   ?= -timeout 5m -parallel 16
BENCHFLAGS   ?=
FUZZTIME     ?= 1m
FUZZ         ?= .
INTEROPFLAGS ?=
NEMESISFLAGS ?=
VERSION      ?= $(shell git describe --tags --always --dirty 2>/dev/null)

.DEFAULT_GOAL := build
.PHONY: build release quick test lint fmt tidy vet staticcheck go-test docs-check fuzz bench interop examples nemesis tools clean

build:
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X leash/internal/config.version=$(VERSION)' -o bin/leash .

release:
	.ci/release

test: lint go-test

# The quick run leaves out the tests that start whole programs, clusters or sentinels, and the slowest ones.
quick: fmt tools
	$(GO) vet ./...
	$(GO) test -vet=off -short $(QUICKFLAGS) $$($(GO) list ./... | grep -v -e /internal/program -e /bench -e /examples -e /internal/cli -e /internal/interop -e /internal/leashtest)

lint: fmt tidy vet staticcheck

fmt:
	@unformatted=$$(gofmt -l .) || exit 1; \
	if [ -n "$$unformatted" ]; then \
		echo "not formatted, run gofmt -w on:"; echo "$$unformatted"; exit 1; \
	fi

tidy:
	$(GO) mod tidy -diff

vet:
	$(GO) vet ./...

staticcheck:
	$(GO) run $(STATICCHECK) ./...

# The packages that take longest come first, so that the others run beside them. `make test` runs
# `make vet` before, so the tests need not do the same with other build flags. Most tests wait, for
# Redis or for a time, so two packages run for each processor.
go-test: tools
	CGO_ENABLED=1 $(GO) test -race -vet=off -p $$((2 * $$(getconf _NPROCESSORS_ONLN))) $(TESTFLAGS) ./proxy ./lockcmd ./proxy/upstream/integration ./...

# The tests of the pages and comments, and those that compare a generated page with its source.
docs-check: tools
	$(GO) test -count=1 ./internal/docscheck ./internal/config
	$(GO) test -count=1 -run 'Pages?$$' ./proxy/command ./internal/metrics ./internal/cli

fuzz:
	FUZZTIME='$(FUZZTIME)' FUZZ='$(FUZZ)' .ci/fuzz

bench: tools
	$(GO) run ./bench $(BENCHFLAGS)

# Each client's program brings what it needs from its language's own package registry; the languages are installed
# where they are missing.
interop:
	@.ci/tools interop
	$(GO) run ./internal/interop $(INTEROPFLAGS)

examples:
	@.ci/tools interop
	$(GO) test -count=1 -tags languages -run TestLanguages ./examples

nemesis: tools
	$(GO) run ./internal/nemesis $(NEMESISFLAGS)

# The tests run against real Redis servers, the race detector needs a C compiler,
# and some need haproxy or ip (iproute2). All are installed only where they are missing.
tools:
	@.ci/tools

clean:
	rm -rf bin dist internal/interop/*/bin internal/interop/*/node_modules internal/interop/*/target internal/interop/*/.venv bench/redisson/target
