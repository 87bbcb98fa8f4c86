# Thin: each target is one script or command, which also works alone. `make` lists them.

.DEFAULT_GOAL := help
.PHONY: help setup demo test bench lint spec

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what building and testing need; silent if it is all there
	@scripts/setup.sh

demo: ## a switch and four hosts move money under locks while things break
	@scripts/setup.sh demo
	@features=$$(scripts/xdp.sh wayside-daemon wayside-demo) && \
		cargo build --release --quiet -p wayside-daemon -p wayside-demo $$features
	@"$${CARGO_TARGET_DIR:-target}/release/wayside-demo"

test: ## everything that must hold, one line a stage
	@scripts/test.sh

bench: ## locks and keys beside bare echoes and peers, queues, recovery, a decision, the simulator's speed; 10 minutes (ALL=1: an hour)
	@features="$$(scripts/xdp.sh wayside-bench) $$(scripts/peers.sh wayside-bench)" && \
		run="cargo run --release --quiet -p wayside-bench $$features --" && \
		$$run && $$run --keys $(if $(ALL),,--brief) && $$run --recovery $(if $(ALL),,--short) && \
		$$run --queues $(if $(ALL),,--short) && \
		echo "NetLock's figures 13 and 14 once more, of the paper's machines, by the model:" && \
		$$run --calibrated N7 N8 $(if $(ALL),,--short)
	@echo 'A decision in the kernel:' && features="$$(scripts/xdp.sh wayside-switch)" && \
		if [ "$$(id -u)" = 0 ] && [ -n "$$features" ]; then \
			cargo run --release --quiet -p wayside-switch $$features --example hook_decisions; \
		else echo 'left out: it needs root, and what `make setup` installs'; fi
	@echo 'The simulator, on one processor:' && \
		told="$$(cargo run --profile simulation --quiet -p wayside-sim -- --seeds 0..500 --jobs 1)" || \
			{ echo "$$told"; exit 1; }; \
		echo "$$told" | sed -n 1,4p

lint: ## formatting, clippy, generated files, scripts
	@scripts/lint.sh

spec: ## the models of the protocol, at their large scopes
	@spec/run.sh full
