# The doors of the project. `make help` lists them.

CARGO ?= cargo
LOOM_CRATES = -p syncline-trace -p syncline-signal -p syncline-sync -p syncline-overlay
SYNCLINE = target/release/syncline
# What CI runs, a person can run; only the progress bar of cargo differs.
export CARGO_TERM_PROGRESS_WHEN ?= auto

.PHONY: help demo test loom lint bench bench-overlay bench-sync bench-peers-deps bench-disk bench-papers soak build

help:
	@echo "make demo        20 iterations in one pass over data four times larger than the memory bound; every bit checked"
	@echo "make test        every test: units, properties, the command, doc examples, models (10 minutes at most)"
	@echo "make lint        formatting, clippy, documentation, licences"
	@echo "make bench       the cost of order: empty tasks, and a sweep in memory against the plain loop"
	@echo "make bench-overlay  overlays against OpenMP, oneTBB and what one writes by hand (a minute)"
	@echo "make bench-sync  barriers and locks against those of others and of textbooks (two minutes)"
	@echo "make bench-peers-deps  installs what these are compiled with (root, Debian); without it they are skipped"
	@echo "make bench-disk  the papers' case out of core (root, 50 GiB of disk, an hour): see bench/README.md"
	@echo "make bench-papers  the papers' older and other schemes out of core (root, 60 GiB of disk, hours): Fig. 7"
	@echo "make soak        the property tests, kills and models at length (an hour)"

build:
	$(CARGO) build --release -p syncline-cli

demo: build
	@sh bench/demo.sh $(SYNCLINE)

test: loom
	$(CARGO) test --workspace -- --show-output

# The lock-free protocols under every interleaving, each with planted bugs that must be found.
loom:
	RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom $(CARGO) test $(LOOM_CRATES) --release --lib

lint:
	$(CARGO) fmt --all -- --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny check bans licenses sources; \
	else echo "skipped: cargo deny is not installed (cargo install cargo-deny)"; fi

bench:
	$(CARGO) bench -p syncline-overlay --bench steps
	$(CARGO) bench -p syncline-wave --bench order

bench-overlay: build
	$(SYNCLINE) bench overlay --quick

bench-sync: build
	$(SYNCLINE) bench barrier --quick
	$(SYNCLINE) bench lock --quick

# The compilers and libraries of the peers; nothing else needs them.
PEERS = apt-get install --no-install-recommends -y gcc g++ libc6-dev clang libomp-dev libtbb-dev
bench-peers-deps:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then $(PEERS); \
	else echo "run as root, on Debian and its kin: $(PEERS)"; fi

bench-disk: build
	python3 bench/out_of_core.py case --syncline $(SYNCLINE) --dir target/bench-data
	python3 bench/out_of_core.py slow --syncline $(SYNCLINE) --dir target/bench-data

bench-papers:
	$(CARGO) build --release -p syncline-schemes
	python3 bench/out_of_core.py papers --dir target/bench-data
	python3 bench/out_of_core.py papers-slow --rounds 1 --dir target/bench-data

soak:
	PROPTEST_CASES=20000 SYNCLINE_KILLS=300 $(CARGO) test --release --workspace -- --show-output
	LOOM_MAX_PREEMPTIONS=4 $(MAKE) loom
