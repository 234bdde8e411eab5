# Everything from a fresh clone with only Python on the machine: `make demo`, `make test`, `make check`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DATA := data/aerial-trees
DEMO := runs/demo
CKPT ?= full

.PHONY: demo test check compat clean

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

# The main job: real aerial photographs, yolo26n from its YAML, full resolution (2299 x 2472 px).
demo: $(VENV)/.ready
	$(BIN)/yolo-ckpt sample aerial dir=$(DATA)
	$(BIN)/yolo-ckpt train model=yolo26n.yaml data=$(DATA)/data.yaml imgsz=2496 batch=1 epochs=8 val=False \
		project=$(CURDIR)/$(DEMO) name=$(CKPT) exist_ok=True workers=0 amp=False pretrained=False ckpt=$(CKPT)

# One process for each core, file by file; the tensors are too small for more threads in each.
test: $(VENV)/.ready
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses=auto --maxprocesses=4 --dist=loadfile

check: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The tests that touch the host, on the oldest version of it, one in the middle and the newest.
compat: $(VENV)/.ready
	$(BIN)/python benchmarks/compat.py

clean:
	rm -rf $(VENV) runs data .mypy_cache .pytest_cache .ruff_cache
