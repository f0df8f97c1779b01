# Every target sets itself up from nothing but Python 3.11+ and make, and is quick the second time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := runs/demo
SPREAD := --numprocesses auto --maxprocesses 4 --dist worksteal  # tests start workers of their own: few processes

.PHONY: demo test test-cpus test-gpu test-cluster test-network network test-hardware test-browser load test-arm lint bench soak soak-cluster fuzz fuzz-gpu coverage clean

# The stamp remembers what was installed: a changed pyproject.toml installs again.
$(VENV)/.user: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "samebits needs Python 3.11 or newer; run: make PYTHON=/path/to/python3.11 ..."; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.user
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,torch,bpe,peers,hardware]'
	@touch $@

$(VENV)/.cuda: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[cuda]'
	@touch $@

$(VENV)/.fpga: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[fpga]'
	@touch $@

$(VENV)/.browser: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[browser]'
	@touch $@

demo: $(VENV)/.user
	@rm -rf $(DEMO)
	$(BIN)/samebits train checkerboard --out $(DEMO)
	$(BIN)/samebits eval $(DEMO)
	$(BIN)/samebits render $(DEMO) --grid 64x64 --steps 110 --damage 20x20@20-60 --out $(DEMO)/pictures
	@echo "look at $(DEMO)/pictures/rollout.gif; to type samebits yourself: . $(BIN)/activate"

test: lint
	$(BIN)/python -m pytest $(SPREAD)
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -m jit_off $(SPREAD) $$(grep -rl --include='test_*.py' mark.jit_off tests)

# The canaries compiled for other types of CPU. Two minutes; CI runs it too.
test-cpus: $(VENV)/.dev
	$(BIN)/python -m pytest -m cpus $(SPREAD)

# What a GPU would show, without one: NVIDIA's own compiler, a CPU that plays an NVIDIA GPU, and Oclgrind, which watches the
# threads of a kernel. Five minutes; CI runs it too.
test-gpu: $(VENV)/.cuda
	@for tool in $${CXX:-c++} oclgrind; do command -v $$tool > /dev/null || missing="$$missing $$tool"; done; \
		if [ -n "$$missing" ]; then \
			if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
				apt-get update -q && apt-get install -y -q build-essential oclgrind; \
			else echo "make test-gpu needs$$missing; install: build-essential oclgrind"; exit 2; fi; fi
	$(BIN)/python -m pytest -m "cuda or races" $(SPREAD)

# Groups of real processes: torchrun, kills, what they refuse. Two minutes; CI runs it after make test.
test-cluster: $(VENV)/.dev
	$(BIN)/python -m pytest -m cluster $(SPREAD)

# Machines in network namespaces, and links that are slow or cut: Linux, root. Three minutes; CI runs it too.
test-network: $(VENV)/.dev
	$(BIN)/python -m pytest -m network

# Step times there, for docs/cluster.md; on an idle machine.
network: $(VENV)/.dev
	$(BIN)/python -m tests.network.measure
	$(BIN)/python tools/cluster_page.py

# Simulators, a C compiler, place and route: Debian's packages and pip's. Some ten minutes; CI runs it too.
TOOLS := verilator iverilog cc
test-hardware: $(VENV)/.fpga
	@for tool in $(TOOLS); do command -v $$tool > /dev/null || missing="$$missing $$tool"; done; \
		if [ -n "$$missing" ]; then \
			if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
				apt-get update -q && apt-get install -y -q verilator iverilog build-essential; \
			else echo "make test-hardware needs$$missing; install: verilator iverilog build-essential"; exit 2; fi; fi
	$(BIN)/python -m pytest -m hardware -p no:xdist -rP

# Exported pages in a real browser, the system's Chromium. Two minutes; CI runs it last.
test-browser: $(VENV)/.browser
	@command -v chromium || command -v chromium-browser || command -v google-chrome || \
		if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
			apt-get update -q && apt-get install -y -q chromium; \
		else echo "make test-browser needs Chromium; install: chromium"; exit 2; fi
	$(BIN)/python -m pytest -m browser -p no:xdist -rP

# The server under load: 64 clients, malformed requests, many runs. Two minutes; the table goes to docs/LOG.md by hand.
load: $(VENV)/.dev
	$(BIN)/python -m tests.serve.load

# The canaries on an emulated ARM64 processor: Debian on x86-64 only. Fetches 160 MB into .arm the first time.
test-arm: $(VENV)/.user
	PYTHON=$(abspath $(BIN)/python) tools/arm/run.sh -m samebits doctor --canaries

lint: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# One task of each family beside its peers: ten minutes on an idle machine. Everything, in half an hour: samebits bench --all
bench: $(VENV)/.dev
	$(BIN)/samebits bench life --peers
	$(BIN)/samebits bench gpt --peers
	$(BIN)/samebits bench boolean --preset timing --peers
	$(BIN)/samebits bench distances

# Half an hour of random kills and resumes; the log goes to docs/LOG.md by hand.
soak: $(VENV)/.dev
	$(BIN)/python -m tests.soak --minutes 30

# The same for groups of processes, some of which come back as another number of them: ten minutes.
soak-cluster: $(VENV)/.dev
	$(BIN)/python -m tests.soak_groups --kills 48

# Inputs that nobody meant to give; what it finds has a command that shows it again. The table goes to docs/LOG.md.
MINUTES ?= 10
fuzz: $(VENV)/.dev
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES)

# Trainings of all shapes on a CPU that plays an NVIDIA GPU, beside the CPU.
fuzz-gpu: $(VENV)/.dev
	$(BIN)/python -m tests.gpu.search --minutes $(MINUTES)

# Lines of src/samebits outside compiled kernels, processes that tests start included.
coverage: $(VENV)/.dev
	$(BIN)/python -m coverage erase
	$(BIN)/python -m coverage run -m pytest $(SPREAD)
	$(BIN)/python -m coverage combine
	$(BIN)/python -m coverage report

clean:
	rm -rf $(VENV) .arm .pytest_cache .mypy_cache .ruff_cache
