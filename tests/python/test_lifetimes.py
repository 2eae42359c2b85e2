"""Objects dropped in any order, batches that end early, threads, forks, and memory that comes back."""
import gc
import itertools
import os
import threading
import time

import numpy as np
import pytest

import skim
from conftest import ONE_LAYER, TOKENS, feed, in_child, run_layers


@pytest.mark.parametrize("order", list(itertools.permutations(["checkpoint", "model", "cache", "batch", "x"])))
def test_objects_may_be_dropped_in_any_order(order):
    checkpoint = skim.Checkpoint.synthetic("v41-tiny")
    model = skim.Model(checkpoint, layers=[0])
    cache = skim.KvCache(model)
    batch = cache.begin({cache.add(): TOKENS})
    x = checkpoint.tensor("layers.0.attn.q_norm.weight")
    states = skim.synthetic_input("x", (TOKENS, model.config.dim))
    model.forward(0, batch, states)
    alive = {"checkpoint": checkpoint, "model": model, "cache": cache, "batch": batch, "x": x}
    del checkpoint, model, cache, batch, x
    for name in order:
        del alive[name]
        gc.collect()
        if "x" in alive:
            assert alive["x"].any()
        if "batch" in alive and "model" in alive:
            with pytest.raises(skim.SkimRuntimeError, match="has run"):
                alive["model"].forward(0, alive["batch"], states)
    assert not alive


def test_a_batch_outlives_its_cache(model, x):
    cache = skim.KvCache(model, max_tokens=64)
    batch = cache.begin({cache.add(): TOKENS})
    del cache
    run_layers(model, batch, x)
    batch.commit()


def test_raising_inside_a_batch_drops_it(model, cache, x):
    sequence = cache.add()
    before = cache.bytes
    with pytest.raises(ZeroDivisionError):
        with cache.begin({sequence: TOKENS}) as batch:
            run_layers(model, batch, x)
            1 / 0
    assert cache.length(sequence) == 0 and cache.bytes == before
    feed(model, cache, sequence, x)
    assert cache.length(sequence) == TOKENS


def test_leaving_a_batch_without_commit_drops_it(model, cache, x):
    sequence = cache.add()
    with cache.begin({sequence: TOKENS}) as batch:
        run_layers(model, batch, x)
    assert cache.length(sequence) == 0
    for call in (batch.commit, lambda: batch.commit(sequence, 1), lambda: model.forward(0, batch, x)):
        with pytest.raises(skim.SkimRuntimeError, match="it was dropped"):
            call()
    batch.drop()
    assert batch.tokens == TOKENS


def test_a_forgotten_batch_frees_its_sequence(cache):
    sequence = cache.add()
    cache.begin({sequence: TOKENS})
    cache.begin({sequence: TOKENS}).drop()


def four_threads(work):
    """Runs work(i) in four threads; what they returned."""
    results, errors = [None] * 4, []

    def run(i):
        try:
            results[i] = work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    return results


@pytest.mark.parametrize("shared_cache", [True, False])
def test_four_threads_on_one_model_get_what_one_gets(model, x, shared_cache):
    def options():
        return skim.KvCache(model, max_tokens=256, threads=1)

    shared = options()

    def work(_):
        cache = shared if shared_cache else options()
        sequence, outputs = cache.add(), []
        for _ in range(5):
            outputs += feed(model, cache, sequence, x)
            cache.remove(cache.fork(sequence))
        return outputs

    alone = work(0)
    for outputs in four_threads(work):
        assert all(np.array_equal(a, b) for a, b in zip(outputs, alone))


def test_four_threads_on_one_batch_get_an_error_and_no_crash(model, cache, x):
    states = np.repeat(x, 20, axis=0)
    with cache.begin({cache.add(): len(states)}) as batch:

        def work(_):
            try:
                return model.forward(0, batch, states)
            except skim.SkimRuntimeError as error:
                assert "another thread" in str(error) or "has run" in str(error)

        assert sum(out is not None for out in four_threads(work)) == 1


def test_other_threads_run_while_a_layer_runs(model, x):
    states = np.repeat(x, 300, axis=0)
    cache = skim.KvCache(model, max_tokens=len(states), threads=1)
    running, steps = threading.Event(), []

    def forward():
        with cache.begin({cache.add(): len(states)}) as batch:
            running.set()
            model.forward(0, batch, states)
        running.clear()

    thread = threading.Thread(target=forward)
    thread.start()
    running.wait()
    while running.is_set():
        steps.append(1)
    thread.join()
    assert len(steps) > 1000


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("threads", [1, 2])
def test_a_forked_child_goes_on_with_everything(model, x, threads):
    states = np.repeat(x, 20, axis=0)  # enough work for OpenMP to start threads
    cache = skim.KvCache(model, max_tokens=1024, threads=threads)
    sequence = cache.add()
    feed(model, cache, sequence, states)
    open_batch = cache.begin({cache.add(): len(states)})

    expected = feed(model, cache, cache.fork(sequence), states)

    def child():
        run_layers(model, open_batch, states)
        fresh = skim.KvCache(skim.Model(skim.Checkpoint.synthetic("v41-tiny"), layers=[0]), threads=threads)
        fresh.begin({fresh.add(): 1}).drop()
        return all(np.array_equal(a, b) for a, b in zip(feed(model, cache, sequence, states), expected))

    assert in_child(child)
    assert cache.length(sequence) == len(states)  # the child had a copy
    assert all(np.array_equal(a, b) for a, b in zip(feed(model, cache, sequence, states), expected))
    assert in_child(lambda: in_child(child) is not None)  # a child of a child


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_forking_waits_for_calls_of_other_threads(model, x):
    states = np.repeat(x, 3000, axis=0)
    cache = skim.KvCache(model, max_tokens=len(states), threads=1)
    batch = cache.begin({cache.add(): len(states)})
    thread = threading.Thread(target=model.forward, args=(0, batch, states))
    thread.start()
    time.sleep(0.05)
    assert thread.is_alive()

    def child():
        try:
            model.forward(0, batch, states)
        except skim.SkimRuntimeError as error:
            return "has run in this batch already" in str(error)

    assert in_child(child)
    thread.join()


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A checkpoint of the one layer of ONE_LAYER."""
    made_up = skim.Checkpoint.synthetic(skim.parse_config(ONE_LAYER))
    path = tmp_path_factory.mktemp("one_layer")
    skim.write_safetensors(path / "model.safetensors",
                           {info.name: made_up.tensor(info.name) for info in made_up.tensors()})
    (path / "config.json").write_text(ONE_LAYER)
    return path


class Things:
    """One of each, to make more from."""

    def __init__(self, folder, x):
        self.folder = folder
        self.config = skim.parse_config(ONE_LAYER)
        self.checkpoint = skim.Checkpoint.synthetic(self.config)
        self.model = skim.Model(self.checkpoint)
        self.cache = skim.KvCache(self.model, threads=1)
        self.sequence = self.cache.add()
        self.x = np.array(x[:1, :32])

    def batch(self):
        return self.cache.begin({self.sequence: 1})

    def forward(self):
        with self.batch() as batch:
            return self.model.forward(0, batch, self.x)

    def error(self):
        try:
            self.cache.length(self.cache.fork(self.sequence, 99))
        except ValueError:
            return None

    def a_sequence(self):
        self.cache.remove(self.cache.add())


CYCLES = {
    "config": lambda things: skim.parse_config(ONE_LAYER),
    "synthetic checkpoint": lambda things: skim.Checkpoint.synthetic(things.config),
    "opened checkpoint": lambda things: skim.Checkpoint.open(things.folder),
    "tensor": lambda things: things.checkpoint.tensor("layers.0.attn.wq_a.weight"),
    "tensors": lambda things: things.checkpoint.tensors(),
    "model": lambda things: skim.Model(things.checkpoint),
    "cache": lambda things: skim.KvCache(things.model).add(),
    "sequence": Things.a_sequence,
    "batch": Things.batch,
    "output": Things.forward,
    "error": Things.error,
}


@pytest.mark.parametrize("kind", CYCLES)
def test_ten_thousand_made_and_dropped_leave_memory_where_it_was(folder, x, kind):
    things, make = Things(folder, x), CYCLES[kind]
    for _ in range(500):
        make(things)
    growth = []
    while len(growth) < 3:  # a leak grows every time, the rest of the process only now and then
        before = resident_bytes()
        for _ in range(10_000):
            make(things)
        growth.append(resident_bytes() - before)
        if growth[-1] < 1 << 20:  # 100 bytes of each would be as much
            return
    raise AssertionError(f"grew by {growth} bytes")
