# Every entry point of the project. `make` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# Where cabal builds, and how many packages at once (empty: one for each core).
BUILDDIR ?= dist-newstyle
JOBS ?=

# What `make serve` serves, and where.
SITE ?= examples/site
LISTEN ?= localhost:8080

# Options of bench/run.py, such as BENCH="--rounds 10 --only fixed-64", or BENCH=--keep to record all samples.
BENCH ?=

# Warnings are seen only where a module is compiled, so `make check` compiles everything in a folder of its own,
# without optimisation. Where nothing has been built yet, as in .ci/run, CHECKDIR=dist-newstyle makes one build of two.
CHECKDIR ?= $(BUILDDIR)-check

# Offline: a fresh default configuration would contact Hackage, so cabal gets an empty one,
# and its own folder beside the build.
export CABAL_DIR := $(abspath $(BUILDDIR))/cabal
export CABAL_CONFIG := $(CABAL_DIR)/config
export LC_ALL := C.UTF-8
# Two that build in one folder, such as `make serve` and `make test` in two terminals, wait for each other, and say so.
LOCKED = flock $(CABAL_CONFIG) cabal
CABAL = flock -n $(CABAL_CONFIG) true || echo "make: waiting for another build in $(BUILDDIR)" >&2; $(LOCKED)
# cabal.project is for those who have Hackage; this one takes Debian's packages only.
PROJECT ?= cabal.project.debian
# With other flags than before, cabal configures every component again, though none is compiled. So .ci/run says AS_CHECKED=yes,
# and what make check has built is tested with its flags.
AS_CHECKED ?=
STRICT_FLAGS = --enable-tests --enable-benchmarks --ghc-options=-Werror
CABAL_FLAGS = --project-file=$(PROJECT) --builddir=$(abspath $(BUILDDIR)) -j$(JOBS) $(if $(AS_CHECKED),$(STRICT_FLAGS))
CHECK_FLAGS = --project-file=$(PROJECT) --builddir=$(abspath $(CHECKDIR)) -j$(JOBS) -v1 $(STRICT_FLAGS) $(if $(filter-out $(abspath $(BUILDDIR)),$(abspath $(CHECKDIR))),-O0)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## install what is missing (Debian, root or sudo)
	@scripts/setup.sh everything

.PHONY: setup-bench
setup-bench: ## install also what Heddle is measured against
	@scripts/setup.sh bench

$(CABAL_CONFIG):
	@mkdir -p $(@D)
	@touch $@

.PHONY: build
build: $(CABAL_CONFIG) ## build the libraries and programs; programs go to bin/
	@$(CABAL) build $(CABAL_FLAGS) all:libs all:exes
	@scripts/copy_programs.py $(BUILDDIR)

# The project file has no other package, so neither their libraries nor their tests are asked for.
.PHONY: command
command: PROJECT = cabal.command.project
command: $(CABAL_CONFIG) ## install what the heddle command needs, and build that alone: bin/heddle
	@scripts/setup.sh command
	@$(CABAL) build $(CABAL_FLAGS) exe:heddle
	@mkdir -p bin
	@cp "$$(cabal list-bin $(CABAL_FLAGS) exe:heddle)" bin/heddle.new
	@mv bin/heddle.new bin/heddle

# Where `make man` and `make deb` write.
MANDIR ?= $(BUILDDIR)/man
DEBDIR ?= $(BUILDDIR)/deb

.PHONY: man
man: ## write the man pages of bin/heddle to dist-newstyle/man (needs lowdown)
	@scripts/man_pages.py bin/heddle $(MANDIR)

.PHONY: check-man
check-man: man ## groff and mandoc read the man pages without a warning (needs man-db, groff, mandoc)
	@for tool in man groff mandoc; do command -v $$tool >/dev/null || { echo "check-man: $$tool is not installed; run: apt-get install man-db groff mandoc" >&2; exit 1; }; done
	@for page in $(MANDIR)/*.[157]; do MANROFFSEQ=t man --warnings -l "$$page" 2>&1 >/dev/null | tee /dev/stderr | { ! grep -q .; }; mandoc -T lint -W warning "$$page"; done
	@echo "check-man: ok"

# Where `make install` installs; packagers set DESTDIR.
PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
ZSHDIR ?= $(PREFIX)/share/zsh/site-functions
DESTDIR ?=
# Empty where it is not wanted, even if it has been built.
MPIRUN ?= bin/heddle-mpirun
INSTALL = PREFIX="$(PREFIX)" SYSCONFDIR="$(SYSCONFDIR)" ZSHDIR="$(ZSHDIR)" DESTDIR="$(DESTDIR)" scripts/install.sh

# Not after `command`: it is run by root, and must not build as root.
.PHONY: install
install: ## install bin/heddle and, if built, bin/heddle-mpirun, man pages, completions, service: make install PREFIX=/usr/local DESTDIR=
	@$(INSTALL) install bin/heddle $(MPIRUN)

.PHONY: uninstall
uninstall: ## remove what make install installed
	@$(INSTALL) uninstall

.PHONY: deb
deb: ## build the command and a Debian package of it: dist-newstyle/deb/heddle_VERSION_ARCH.deb
	@scripts/make_deb.sh --tools
	@$(MAKE) --no-print-directory command
	@scripts/make_deb.sh $(DEBDIR)

# A Debian made by debootstrap; without it, test-deb makes one.
CHROOT ?=

# Not after `deb`: it is run by root, and must not build as root.
.PHONY: test-deb
test-deb: ## install, run and purge the package of make deb in a clean Debian (root): make test-deb CHROOT=DIR
	@scripts/test_deb.sh "$$(ls -t $(DEBDIR)/heddle_*.deb 2>/dev/null | head -n 1 || true)" $(CHROOT)

# One suite (io, http-engine, command …), in it the tests that tasty's pattern P names, and other options of tasty.
SUITE ?=
P ?=
TEST_OPTIONS ?=
# How many suites run at once (empty: two, if there are two processors), and how many rounds of make stall (empty: one).
TEST_JOBS ?=
TEST = $(if $(filter command,$(SUITE)),heddle-test,heddle-$(SUITE)$(if $(filter %-stress %-nonthreaded %-conformance %-weigh,$(SUITE)),,-test))
RUN_TESTS = scripts/test.py $(if $(TEST_JOBS),--jobs $(TEST_JOBS)) $(if $(P),--pattern "$(P)") $(if $(TEST_OPTIONS),--options="$(TEST_OPTIONS)") $(abspath $(BUILDDIR))

.PHONY: test
test: setup $(CABAL_CONFIG) $(if $(SUITE),,build) ## run every test suite, two at once; the summary comes last. One: make test SUITE=io P=pattern
	@$(CABAL) build $(CABAL_FLAGS) $(if $(SUITE),$(TEST),all:tests)
	@$(RUN_TESTS) $(if $(SUITE),$(TEST))

# Where `make quick` and `make watch` build, the commit that the checkout is compared with, and the minutes for dependants' suites.
QUICKDIR ?= dist-quick
BASE ?= origin/main
MINUTES ?= 2
PICK = $(if $(JOBS),--jobs $(JOBS)) $(if $(P),--pattern "$(P)") $(if $(TEST_OPTIONS),--options="$(TEST_OPTIONS)")

.PHONY: quick watch stall
quick: $(CABAL_CONFIG) ## build and test what you have changed and what depends on it, without optimisation: make quick BASE=origin/main, or SUITE=io P=pattern
	@scripts/quick.py --base "$(BASE)" --minutes $(MINUTES) $(if $(SUITE),--suite $(SUITE)) $(PICK) $(QUICKDIR)

watch: $(CABAL_CONFIG) ## build and run a suite at every save, as make quick does: make watch SUITE=io P=pattern
	@test -n "$(SUITE)" || { echo "make watch: name a suite: make watch SUITE=io" >&2; exit 2; }
	@scripts/watch.py "$(SUITE)" $(QUICKDIR) $(PICK)

# How many rounds of a suite, and what the first one's stops are drawn from (empty: the time of day).
ROUNDS ?= 20
SEED ?=

stall: $(CABAL_CONFIG) ## run a suite while its processes are stopped and continued at random: make stall SUITE=io ROUNDS=20 SEED=1 (SUITE=all)
	@test -n "$(SUITE)" || { echo "make stall: name a suite: make stall SUITE=io, or SUITE=all" >&2; exit 2; }
	@$(CABAL) build $(CABAL_FLAGS) $(if $(filter all,$(SUITE)),all:tests,$(TEST))
	@scripts/stall.py --rounds $(ROUNDS) $(if $(TEST_JOBS),--jobs $(TEST_JOBS)) $(if $(SEED),--seed $(SEED)) $(if $(P),--pattern "$(P)") $(if $(TEST_OPTIONS),--options="$(TEST_OPTIONS)") \
	  $(abspath $(BUILDDIR)) $(if $(filter all,$(SUITE)),all,$(TEST))

# Packages whose suites need no browser: all but the command, the examples and the benchmarks.
LIBRARIES = $(notdir $(patsubst %/,%,$(wildcard base/*/ sched/*/ measure/*/ net/*/ stream/*/ cluster/*/)))

.PHONY: build-libraries
build-libraries: $(CABAL_CONFIG)
	@scripts/setup.sh libraries
	@$(CABAL) build $(CABAL_FLAGS) $(addsuffix :tests,$(LIBRARIES))

.PHONY: test-libraries
test-libraries: build-libraries ## the suites of the libraries alone; SKIP=heddle-io leaves packages out
	@$(RUN_TESTS) $(filter-out $(SKIP),$(LIBRARIES))

.PHONY: test-debian13 test-sid
test-debian13: ## make serve and make test in a clean Debian 13 (root): make test-debian13 CHROOT=DIR
	@scripts/test_debian.sh trixie $(CHROOT)

test-sid: ## the same in Debian's unstable release
	@scripts/test_debian.sh sid $(CHROOT)

.PHONY: repl
repl: ## a library in GHCi, from source: make repl PKG=heddle-io
	@scripts/cabal repl -j$(JOBS) lib:$(or $(PKG),heddle-prim)

# Where `make docs` writes.
DOCSDIR ?= $(BUILDDIR)/docs

.PHONY: docs
docs: setup $(CABAL_CONFIG) ## a site of all pages, with the Haddocks and their sources, in dist-newstyle/docs: bin/heddle serve dist-newstyle/docs
	@$(CABAL) haddock $(CABAL_FLAGS) -v1 --haddock-hyperlink-source --haddock-quickjump '--haddock-html-location=https://hackage.haskell.org/package/$$pkg-$$version/docs' $(addprefix lib:,$(LIBRARIES))
	@mkdir -p $(DOCSDIR)
	@scripts/docs.py $(BUILDDIR) $(DOCSDIR)/api
	@scripts/site.py $(DOCSDIR)

.PHONY: test-repl
test-repl: ## GHCi loads every library and program from its source
	@scripts/test_repl.sh

.PHONY: setup-conformance
setup-conformance: ## install also what make test-conformance needs
	@scripts/setup.sh conformance

.PHONY: test-conformance
test-conformance: setup-conformance build ## h2spec, Autobahn's cases for WebSocket, testssl.sh and sslyze, which are fetched from their registries
	@$(CABAL) build $(CABAL_FLAGS) heddle-http-h2-test heddle-websocket-conformance heddle-wai-apps-test
	@scripts/test_conformance.sh $(abspath $(BUILDDIR))

.PHONY: test-ktls
test-ktls: setup build ## TLS where the kernel encrypts (kTLS), in Debian's User Mode Linux
	@scripts/setup.sh ktls
	@$(CABAL) build $(CABAL_FLAGS) heddle-tls-test heddle-test
	@scripts/test_ktls.sh "$$(cabal list-bin $(CABAL_FLAGS) heddle-tls-test)" "$$(cabal list-bin $(CABAL_FLAGS) heddle-test)"

.PHONY: test-nightly
test-nightly: setup build ## what takes too long for every day: all short UTF-8, the C for 20 minutes, soaks, a storm over TLS, a million mutated messages of OpenFlow
	@HEDDLE_SANITIZE_SECONDS=$${HEDDLE_SANITIZE_SECONDS:-1200} scripts/check_sanitize.sh $(BUILDDIR)
	@HEDDLE_NIGHTLY=1 cabal test $(CABAL_FLAGS:-j%=-j1) --test-show-details=direct --test-options='-p UTF-8' heddle-bytes-test
	@HEDDLE_NIGHTLY=1 cabal test $(CABAL_FLAGS:-j%=-j1) --test-show-details=direct --test-options='-p capabilities' heddle-rendezvous-test
	@HEDDLE_NIGHTLY=1 cabal test $(CABAL_FLAGS:-j%=-j1) --test-show-details=direct --test-options='-p soak' heddle-test
	@HEDDLE_NIGHTLY=1 cabal test $(CABAL_FLAGS:-j%=-j1) --test-show-details=direct --test-options='-p crowd' heddle-tls-test
	@HEDDLE_NIGHTLY=1 cabal test $(CABAL_FLAGS:-j%=-j1) --test-show-details=direct --test-options='-p mutated' heddle-openflow-test

.PHONY: sdist
sdist: ## source packages of the libraries and the command, in dist-newstyle/sdist
	@scripts/sdist.sh $(BUILDDIR)/sdist

.PHONY: test-sdist
test-sdist: ## a program outside the checkout, built from the source packages alone
	@scripts/test_sdist.sh

.PHONY: check
check: check-format check-scripts check-modules check-packages check-licences check-links check-site check-results check-compilers check-generated check-lint check-ordering check-sanitize check-warnings check-documentation check-safe-points check-pages ## style, warnings, documentation, sanitizers
	@echo "check: ok"

.PHONY: check-format
check-format: ## every file is as Ormolu writes it
	@scripts/check_format.sh

.PHONY: check-scripts
check-scripts: ## the tests of the scripts of make quick, make watch and make stall
	@python3 scripts/scripts_test.py
	@echo "check-scripts: ok"

.PHONY: check-modules
check-modules: ## export lists, and no module above 700 lines
	@scripts/check_modules.py

.PHONY: check-packages
check-packages: ## no import of another package's Internal; the documents' package tables are what the cabal files say
	@scripts/packages.py --check

.PHONY: check-licences
check-licences: ## what is linked has licences that BSD-3-Clause can carry, and docs/licences.md lists them
	@scripts/licences.py --check

.PHONY: check-links
check-links: ## relative links, anchors and names of modules in all pages resolve
	@scripts/check_links.py

.PHONY: check-site
check-site: ## make docs can make its site, and every link in it leads somewhere
	@scripts/site.py --check

.PHONY: check-results
check-results: ## the numbers in the pages are those of docs/results
	@scripts/results.py --check

.PHONY: check-compilers
check-compilers: ## the table of compilers and suites is what their runs have written
	@scripts/compilers.py --check

# The program beside it prints the whole table.
.PHONY: check-generated
check-generated: ## the table of powers of ten and the timeline's page are what their programs print
	@python3 base/heddle-bytes/cbits/powers.py | diff -u base/heddle-bytes/cbits/heddle_powers.c -
	@python3 measure/heddle-trace/page/template.py | diff -u measure/heddle-trace/src/Heddle/Trace/Template.hs -
	@echo "check-generated: ok"

.PHONY: check-lint
check-lint: ## HLint, with our own rules
	@scripts/check_lint.sh

.PHONY: check-ordering
check-ordering: ## the generated code of atomic operations: barriers where needed, none elsewhere
	@scripts/check_ordering.py

.PHONY: check-sanitize
check-sanitize: ## the C that reads untrusted bytes, under ASan and UBSan, on random input (HEDDLE_SANITIZE_SECONDS=30)
	@scripts/check_sanitize.sh $(BUILDDIR)

.PHONY: check-warnings
check-warnings: $(CABAL_CONFIG) ## no warnings, in tests and benchmarks either
	@$(CABAL) build $(CHECK_FLAGS) --keep-going all || { echo "check-warnings: fix the warnings above; here they count as errors" >&2; exit 1; }
	@echo "check-warnings: ok"

.PHONY: check-safe-points
check-safe-points: check-warnings ## the machine code of unmasked task switches allocates nothing
	@scripts/check_safe_points.py $(CHECKDIR)

.PHONY: check-pages
check-pages: check-warnings ## the Haskell in the pages compiles, and the manuals' options exist
	@scripts/check_pages.py $(CHECKDIR)

.PHONY: check-documentation
check-documentation: $(CABAL_CONFIG) ## every export is documented
	@scripts/check_documentation.py $(LOCKED) haddock $(CHECK_FLAGS) all

.PHONY: packages
packages: ## rewrite the package tables of the documents and hie.yaml from the cabal files
	@scripts/packages.py

.PHONY: licences
licences: ## rewrite docs/licences.md and the package's copyright from what is linked
	@scripts/licences.py

.PHONY: format
format: ## rewrite every Haskell file as Ormolu would
	@scripts/sources.sh | xargs -r ormolu --cabal-default-extensions --mode inplace

.PHONY: serve
serve: command ## build the command, then serve examples/site on http://localhost:8080
	@exec bin/heddle serve $(SITE) --listen $(LISTEN)

.PHONY: bench-programs
bench-programs: setup-bench build
	@$(MAKE) --no-print-directory -C bench

.PHONY: bench bench-quick
bench: bench-programs ## every benchmark, recorded in docs/results and written into the pages
	@python3 bench/everything.py $(BENCH)

bench-quick: bench-programs ## a quarter of an hour of them, and a page in bench/build/results beside the documents' figures
	@python3 bench/everything.py --quick $(BENCH)

.PHONY: bench-io
bench-io: bench-programs ## the event manager against C and GHC's own
	@python3 bench/run.py io $(BENCH)

.PHONY: bench-serve
bench-serve: bench-programs ## the web server against nginx, h2o, lighttpd, mighttpd2, warp
	@python3 bench/run.py serve $(BENCH)

.PHONY: bench-wai
bench-wai: bench-programs ## WAI applications and WebSocket against warp and websockets
	@python3 bench/run.py wai $(BENCH)

.PHONY: bench-tls
bench-tls: bench-programs ## TLS against nginx
	@python3 bench/run.py tls $(BENCH)

.PHONY: bench-h2
bench-h2: bench-programs ## HTTP/2 against nginx and h2o
	@python3 bench/run.py h2 $(BENCH)

.PHONY: bench-gateways
bench-gateways: bench-programs ## the reverse proxy, FastCGI and CGI against nginx and lighttpd
	@python3 bench/run.py gateways $(BENCH)

.PHONY: bench-operate
bench-operate: bench-programs ## threads and processes, logs, routes, compressed files, idle clients, attackers, reloads, against nginx
	@python3 bench/run.py operate $(BENCH)

.PHONY: bench-trace
bench-trace: bench-programs ## what an event log costs the server, and how long 200 MB of one take
	@python3 bench/run.py trace $(BENCH)

.PHONY: bench-timelines
bench-timelines: bench-programs ## timelines of GHC's event manager and of Heddle's, in docs/results/timelines.html
	@python3 bench/timelines.py $(BENCH)

.PHONY: bench-openflow
bench-openflow: bench-programs ## an OpenFlow controller against C and ovs-testcontroller
	@python3 bench/run.py openflow $(BENCH)

.PHONY: bench-par
bench-par: bench-programs ## tasks against monad-par, sparks and two processes
	@python3 bench/run.py par $(BENCH)

.PHONY: bench-rendezvous
bench-rendezvous: bench-programs ## rendezvous against the paper's libraries, Go's channels and C
	@python3 bench/run.py rendezvous $(BENCH)

.PHONY: bench-coroutine
bench-coroutine: bench-programs ## pipelines against conduit, pipes, the article, loops, grep and ripgrep
	@python3 bench/run.py coroutine $(BENCH)

.PHONY: bench-mpi
bench-mpi: bench-programs ## MPI against C and mpi4py, under Open MPI and MPICH
	@python3 bench/run.py mpi $(BENCH)

.PHONY: bench-find
bench-find: bench-programs ## heddle find against C, GNU find, fd, bfs and the seed's programs
	@python3 bench/run.py find $(BENCH)

.PHONY: bench-growth
bench-growth: bench-programs ## what would grow with cores, counted: locked instructions, barriers, context switches, bytes
	@python3 bench/run.py growth $(BENCH)

.PHONY: bench-bytes
bench-bytes: bench-programs ## numbers, UTF-8, JSON, hashes against bytestring, text, aeson, hashable, simdjson and C
	@python3 bench/run.py bytes $(BENCH)

.PHONY: bench-measure
bench-measure: bench-programs ## what heddle-measure promises: drift, false alarms, coverage, overhead
	@python3 bench/run.py measure $(BENCH)

.PHONY: results
results: ## write docs/results/*.json, which BENCH=--keep records, into the pages, and docs/results/index.html
	@scripts/results.py

.PHONY: compilers
compilers: ## write docs/results/compilers, which HEDDLE_SUMMARY=FILE make test and make bench-compilers make, into docs/library.md
	@scripts/compilers.py

# The other checkout that `make bench-against` measures against.
OLD ?=

.PHONY: bench-against
bench-against: bench-programs ## this checkout against another one: make bench-against OLD=DIR
	@python3 bench/against.py $(BENCH) $(OLD)

# Without bench-programs: the folders are those of other compilers' checkouts; here only the C twins are built.
.PHONY: bench-compilers
bench-compilers: ## the hot paths by several compilers against C: make bench-compilers BENCH="9.0.2=DIR 9.6.6=DIR --keep"
	@$(MAKE) --no-print-directory -C bench
	@python3 bench/compilers.py $(BENCH)

.PHONY: clean
clean: ## remove everything that was built
	@rm -rf bin bench/build dist-newstyle dist-newstyle-check dist-newstyle-repl $(BUILDDIR) $(QUICKDIR) $(CHECKDIR)
