# The front door, the same at home and in CI. `make` alone runs `make test`.

CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)

.PHONY: test
test: tools ## formatting, lints, and all tests; installs the tools they need
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) build --locked --workspace --all-targets
	$(CARGO) test --locked --workspace

.PHONY: tools
tools: ## docker-registry, skopeo, umoci (apt-get) and grpcurl (go install), where missing
	@tests/install-tools $(TARGET)/tools/bin

.PHONY: demo
demo: ## pulls an image from a registry of its own and shows it; ONCE=1: ends by itself
	$(CARGO) build --locked -p puller -p puller-tests --bin puller --bin demo
	@$(TARGET)/debug/demo

.PHONY: bench
bench: ## measures the puller beside its peers and writes BENCHMARKS.md
	$(CARGO) build --locked --profile dist -p puller
	$(CARGO) run --locked --profile dist -p puller-tests --bin bench

.PHONY: bench-setup
bench-setup: ## installs the peers that `make bench` measures
	$(CARGO) run --locked --profile dist -p puller-tests --bin bench -- setup

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16
