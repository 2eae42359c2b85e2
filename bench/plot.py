"""Draws what `skim bench --json` wrote: cost per token against context, and the share of the ceiling per operation.

    plot.py bench.json FOLDER
"""

import json
import pathlib
import sys

import matplotlib

matplotlib.use("Agg")
matplotlib.rcParams["svg.hashsalt"] = "skim"  # the same numbers give the same file
matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text
from matplotlib import pyplot as plt  # noqa: E402  (after the choice of what draws)


def model_name(model):
    return model.removeprefix("synthetic:")


def context_text(tokens):
    for unit, size in (("M", 1 << 20), ("K", 1 << 10)):
        if tokens % size == 0:
            return f"{tokens // size}{unit}"
    return str(tokens)


def plain_number(value, _):
    """Labels of a logarithmic axis: 1, 2, 5, 10, 20, ..."""
    return f"{value:g}" if f"{value:e}"[0] in "125" else ""


def panels(count, height):
    figure, axes = plt.subplots(1, count, figsize=(5.6 * count, height), squeeze=False, constrained_layout=True)
    return figure, axes[0]


def save(figure, file, report):
    machine = report["machine"]
    sets = sorted({result["set"] for result in report["results"]})
    figure.suptitle(f"{machine['cpu']}, {report['threads']} threads, {', '.join(sets)} kernels", fontsize=10)
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)
    print(file)


def draw_cost(report, mode, file):
    """One panel per model, one line per layer and kernel set."""
    results = [result for result in report["results"] if result["name"] == mode and "layer" in result]
    models = list(dict.fromkeys(result["model"] for result in results))
    if not models:
        return
    sets = list(dict.fromkeys(result["set"] for result in results))
    figure, axes = panels(len(models), 4.2)
    for axis, model in zip(axes, models):
        lines = {}
        for result in results:
            if result["model"] == model:
                key = (result["layer"], result["role"], result["ratio"], result["set"])
                lines.setdefault(key, []).append(result)
        layers = list(dict.fromkeys(key[0] for key in lines))
        for (layer, role, ratio, kernels), points in lines.items():
            label = f"layer {layer}, {role}" + (f", ratio {ratio}" if ratio > 0 else "")
            label += f" ({kernels})" if len(sets) > 1 else ""
            axis.plot([point["context"] for point in points],
                      [point["median_ns"] / point["tokens"] / 1e6 for point in points],
                      marker="o", markersize=3.5, label=label, color=f"C{layers.index(layer)}",
                      linestyle=("-", "--")[sets.index(kernels) % 2])
        contexts = sorted({result["context"] for result in results})
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter(plain_number)
        axis.yaxis.set_minor_formatter(plain_number)
        axis.tick_params(axis="y", which="both", labelsize=8)
        axis.set_xticks(contexts, [context_text(context) for context in contexts])
        axis.set_xlabel("tokens of context")
        axis.set_ylabel("ms per token")
        tokens = {point["tokens"] for points in lines.values() for point in points}
        axis.set_title(f"{model_name(model)}: {mode} of {' or '.join(map(str, sorted(tokens)))} tokens"
                       .replace("of 1 tokens", "of one token"), fontsize=10)
        axis.grid(True, which="both", linewidth=0.3)
        axis.legend(fontsize=7)
    save(figure, file, report)


def draw_shares(report, file):
    """One panel per model, one bar per operation; what binds stands at its end."""
    results = [result for result in report["results"] if "layer" not in result]
    models = list(dict.fromkeys(result["model"] for result in results))
    if not models:
        return
    sets = list(dict.fromkeys(result["set"] for result in results))
    titles = {model: list(dict.fromkeys(f"{result['name']} {result['shape']}" for result in results
                                        if result["model"] == model)) for model in models}
    figure, axes = panels(len(models), 1.2 + 0.2 * max(map(len, titles.values())) * len(sets))
    figure.set_figwidth(9 * len(models))
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
    source, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    with open(source, encoding="utf-8") as file:
        report = json.load(file)
    folder.mkdir(parents=True, exist_ok=True)
    draw_cost(report, "decode", folder / "decode.svg")
    draw_cost(report, "prefill", folder / "prefill.svg")
    draw_shares(report, folder / "roofline.svg")


if __name__ == "__main__":
    main()
