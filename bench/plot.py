"""Draws what `skim bench --json` wrote, and keeps it: docs/perf/<processor>.json and <processor>-<figure>.svg.

    plot.py bench.json docs/perf

decode, prefill: time per token against context, both linear, because scoring index keys costs in proportion to it.
Points are medians, bars reach from the best to the worst repeat. roofline: what operations reach between the ceilings
of arithmetic and of memory. shares: each operation's share of the ceiling that binds it.
"""

import json
import pathlib
import re
import shutil
import sys

import matplotlib

matplotlib.use("Agg")
matplotlib.rcParams["svg.hashsalt"] = "skim"  # the same numbers give the same file
matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text
from matplotlib import pyplot as plt  # noqa: E402  (after the choice of what draws)

MARKERS = {1: "o", 16: "s", 64: "D", 512: "^"}  # by rows or queries


def processor_name(machine):
    """xeon-6-207 of "Intel(R) Xeon(R) Processor", family 6, model 207."""
    words = re.sub(r"\(\w+\)|\b(AMD|Intel|Processor|CPU)\b", " ", machine["cpu"]).lower()
    numbers = [str(machine[key]) for key in ("family", "model") if key in machine]
    return "-".join(re.findall(r"[a-z0-9]+", words)[:2] + numbers)


def model_name(model):
    return model.removeprefix("synthetic:")


def of_layers(report):
    return [result for result in report["results"] if "layer" in result]


def of_operations(report):
    return [result for result in report["results"] if "layer" not in result]


def distinct(values):
    return list(dict.fromkeys(values))


def peak(report, kinds):
    """The fastest loop of these kinds: its name, and 10^9 operations per second of all threads at best."""
    rates = {name: ceiling["all_threads"]["best"] for name, ceiling in report["ceilings"].items()
             if name.startswith(kinds)}
    name = max(rates, key=rates.get)
    return name, rates[name]


def panels(count, width, height):
    figure, axes = plt.subplots(1, count, figsize=(width * count, height), squeeze=False, constrained_layout=True)
    return figure, axes[0]


def save(figure, file, report):
    sets = ", ".join(distinct(result["set"] for result in report["results"]))
    machine = report["machine"]
    numbers = "".join(f", {key} {machine[key]}" for key in ("family", "model") if key in machine)
    figure.suptitle(f"{machine['cpu']}{numbers}; {report['threads']} threads, {sets} kernels", fontsize=10)
    figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None, dpi=110)
    plt.close(figure)
    print(file)


def flops_per_dense_row(report, model):
    """Operations of attention per row of context: a product and a sum for each element of a key and of a value."""
    for result in of_operations(report):
        if result["model"] == model and result["name"] == "attend":
            heads, key, value = map(int, re.search(r"x (\d+) heads.* of (\d+)/(\d+)", result["shape"]).groups())
            return 2 * heads * (key + value)
    return None


def draw_dense(axis, report, model, contexts):
    """Attention to every row of a context (of ratio 1), at the peak of the machine: no program can be faster."""
    flops = flops_per_dense_row(report, model)
    if flops is None:
        return
    name, rate = peak(report, ("float", "bf16"))
    times = [flops * context / rate / 1e6 for context in contexts]
    axis.plot(contexts, times, color="black", linestyle=":", linewidth=1.2,
              label=f"dense attention at the peak of {name}: {times[-1]:.0f} ms at the right")


def draw_cost(report, mode, file):
    """One panel per model, one line per layer and kernel set."""
    results = [result for result in of_layers(report) if result["name"] == mode]
    models = distinct(result["model"] for result in results)
    if not models:
        return
    figure, axes = panels(len(models), 6.2, 4.4)
    for axis, model in zip(axes, models):
        lines = {}
        for result in results:
            if result["model"] == model:
                lines.setdefault((result["layer"], result["role"], result["ratio"], result["set"]), []).append(result)
        layers, sets = distinct(key[0] for key in lines), distinct(key[3] for key in lines)
        for (layer, role, ratio, kernels), points in lines.items():
            per_token = [1e6 * point["tokens"] for point in points]
            medians = [point["median_ns"] / unit for point, unit in zip(points, per_token)]
            best = [point["best_ns"] / unit for point, unit in zip(points, per_token)]
            worst = [point.get("worst_ns", point["median_ns"]) / unit for point, unit in zip(points, per_token)]
            label = f"layer {layer}, {role}" + (f", ratio {ratio}" if ratio > 0 else "")
            axis.errorbar([point["context"] for point in points], medians,
                          yerr=[[m - b for m, b in zip(medians, best)], [w - m for m, w in zip(medians, worst)]],
                          marker="o", markersize=3, linewidth=1.2, capsize=2, elinewidth=0.8,
                          color=f"C{layers.index(layer)}", linestyle=("-", "--")[sets.index(kernels) % 2],
                          label=label + (f" ({kernels})" if len(sets) > 1 else ""))
        contexts = sorted({result["context"] for result in results})
        draw_dense(axis, report, model, [0, *contexts])
        highest = max(point.get("worst_ns", point["median_ns"]) / point["tokens"] / 1e6
                      for points in lines.values() for point in points)
        axis.set_ylim(0, 1.35 * highest)
        axis.set_xlim(0, 1.02 * contexts[-1])
        ticks = [context for context in contexts if context >= contexts[-1] / 10]
        axis.set_xticks(ticks, [f"{context >> 10}K" if context < 1 << 20 else f"{context >> 20}M" for context in ticks])
        axis.set_xlabel("tokens of context")
        axis.set_ylabel("ms per token")
        tokens = max(point["tokens"] for points in lines.values() for point in points)
        axis.set_title(f"{model_name(model)}: {mode} of {'one token' if tokens == 1 else f'{tokens} tokens'}",
                       fontsize=10)
        axis.grid(True, linewidth=0.3)
        axis.legend(fontsize=7, loc="upper center")
    save(figure, file, report)


def rows_of(result):
    """Rows, queries or tokens at once: the number its shape begins with."""
    return int(re.match(r"\d+", result["shape"]).group())


def draw_roofline(report, file):
    """One panel per model: operations per second against operations per byte; points are medians, bars reach to the best."""
    results = [result for result in of_operations(report) if result["flops"] > 0]
    models = distinct(result["model"] for result in results)
    if not models:
        return
    kinds = distinct(result["name"] for result in results)
    reading = peak(report, "read")[1]
    intensities = [result["flops"] / result["bytes"] for result in results]
    left, right = min(intensities) / 2, max(intensities) * 2
    figure, axes = panels(len(models), 6.6, 5)
    for axis, model in zip(axes, models):
        for kinds_of_loop in (("float", "bf16"), ("int8",)):
            name, rate = peak(report, kinds_of_loop)
            axis.plot([left, rate / reading, right], [left * reading, rate, rate], color="black", linewidth=0.8)
            axis.text(right / 1.1, rate * 1.05, f"{name} {rate:.0f} GFLOP/s", ha="right", fontsize=7)
        axis.text(left * 1.15, left * reading * 3, f"reading {reading:.0f} GB/s", fontsize=7)
        for result in results:
            if result["model"] != model:
                continue
            intensity = result["flops"] / result["bytes"]
            median, best = (result["flops"] / result[key] for key in ("median_ns", "best_ns"))
            axis.errorbar(intensity, median, yerr=[[0], [best - median]], marker=MARKERS.get(rows_of(result), "v"),
                          markersize=4.5, color=f"C{kinds.index(result['name'])}", elinewidth=0.8)
        for kind in kinds:
            axis.plot([], [], "o", markersize=4.5, color=f"C{kinds.index(kind)}", label=kind)
        for rows, marker in MARKERS.items():
            axis.plot([], [], marker, markersize=4.5, color="grey", label=f"{rows} rows" if rows > 1 else "1 row")
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlim(left, right)
        axis.set_xlabel("operations per byte of operands and results")
        axis.set_ylabel("GFLOP/s (operations on integers too)")
        axis.set_title(model_name(model), fontsize=10)
        axis.grid(True, which="both", linewidth=0.2)
        axis.legend(fontsize=7, loc="lower right")
    save(figure, file, report)


def draw_shares(report, file):
    """One panel per model, one bar per operation and kernel set; what binds stands at its end."""
    results = of_operations(report)
    models = distinct(result["model"] for result in results)
    if not models:
        return
    sets = distinct(result["set"] for result in results)
    titles = {model: distinct(f"{result['name']} {result['shape']}" for result in results if result["model"] == model)
              for model in models}
    figure, axes = panels(len(models), 9, 1.2 + 0.2 * max(map(len, titles.values())) * len(sets))
    for axis, model in zip(axes, models):
        for result in results:
            if result["model"] != model:
                continue
            row = titles[model].index(f"{result['name']} {result['shape']}")
            place = row + (sets.index(result["set"]) - (len(sets) - 1) / 2) * 0.8 / len(sets)
            share = 100 * result["share"]
            axis.barh(place, min(share, 120), height=0.8 / len(sets), color=f"C{sets.index(result['set'])}")
            axis.text(min(share, 120) + 1, place, f"{share:.0f} % of {result['ceiling']}", va="center", fontsize=6)
        axis.set_yticks(range(len(titles[model])), titles[model], fontsize=7)
        axis.invert_yaxis()
        axis.set_xlim(0, 150)
        axis.axvline(100, color="black", linewidth=0.5)
        axis.set_xlabel("% of what this machine can do")
        axis.set_title(model_name(model), fontsize=10)
        axis.margins(y=0.01)
    save(figure, file, report)


def main():
    source, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    suffix = sys.argv[3] if len(sys.argv) > 3 else ".svg"
    report = json.loads(source.read_text(encoding="utf-8"))
    folder.mkdir(parents=True, exist_ok=True)
    name = processor_name(report["machine"])
    if source.resolve() != (folder / f"{name}.json").resolve():
        shutil.copyfile(source, folder / f"{name}.json")
    draw_cost(report, "decode", folder / f"{name}-decode{suffix}")
    draw_cost(report, "prefill", folder / f"{name}-prefill{suffix}")
    draw_roofline(report, folder / f"{name}-roofline{suffix}")
    draw_shares(report, folder / f"{name}-shares{suffix}")


if __name__ == "__main__":
    main()
