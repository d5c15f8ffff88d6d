# The front door, the same at home and in CI. `make` alone runs `make test`.

CARGO ?= cargo
BUILD := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)

.PHONY: test
test: tools ## formatting, lints, and all tests; installs the tools they need
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) build --locked --workspace --all-targets
	$(CARGO) test --locked --workspace
	$(CARGO) clippy --locked -p puller --all-targets --features otlp -- -D warnings
	$(CARGO) test --locked -p puller --lib --features otlp logging

.PHONY: tools
tools: ## docker-registry, skopeo, strace, umoci and Go (apt-get) where missing; grpcurl, tests/gotar, kube-apiserver (built by Go; the last takes minutes, once); etcd
	@tests/install-tools $(BUILD)/tools/bin

.PHONY: demo
demo: ## pulls an image from a registry of its own and shows it; ONCE=1: ends by itself
	$(CARGO) build --locked -p puller -p puller-tests --bin puller --bin demo
	@$(BUILD)/debug/demo

.PHONY: soak
soak: ## kills, faults, claims and watchers at random for MINUTES=30, with every invariant checked; PULLER_TEST_SEED
	$(CARGO) build --locked -p puller -p puller-tests --bin puller --bin soak
	@$(BUILD)/debug/soak --minutes $(or $(MINUTES),30)

.PHONY: bench
bench: tools ## measures the puller beside its peers and writes BENCHMARKS.md; ARGS="--runs 1 --shapes many"
	$(CARGO) build --locked --profile dist -p puller -p puller-tests --bin puller --bin bench --example bare_pipeline
	@$(BUILD)/dist/bench $(ARGS)

.PHONY: bench-setup
bench-setup: tools ## installs the peers that `make bench` measures
	@tests/install-peers $(BUILD)/tools/bin

.PHONY: fuzz
fuzz: ## fuzzes every parser, each for SECONDS=60; TARGET=tar for one of them
	@fuzz/run $(BUILD) $(or $(SECONDS),60) $(TARGET)

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16
