#include "bench/report.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <string_view>
#include <thread>
#include <utility>

namespace skim::bench {
namespace {

using Json = nlohmann::ordered_json;

std::string time_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.3f} s ", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.3f} ms", seconds * 1e3);
  return fmt::format("{:.2f} us", seconds * 1e6);
}

/// The value of a line "name<tabs>: value" of Linux' description of the first processor; `otherwise` if there is none.
std::string processor_text(std::string_view name, const std::string& otherwise) {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(": "), end = line.find_last_not_of("\t ", colon - 1);
    if (colon != std::string::npos && line.substr(0, end + 1) == name) return line.substr(colon + 2);
  }
  return otherwise;
}

/// Family and model tell processors apart whose names in virtual machines are alike.
Json machine_json() {
  Json machine = {{"cpu", processor_text("model name", "unknown")}};
  for (const auto& [key, line] : {std::pair("family", "cpu family"), std::pair("model", "model")}) {
    const std::string number = processor_text(line, "");
    if (!number.empty()) machine[key] = std::stoi(number);
  }
  machine["cores"] = std::thread::hardware_concurrency();
  machine["cache_bytes"] = cache_bytes();
  machine["features"] = available_features();
  return machine;
}

/// Bandwidths in GB/s, arithmetic in GFLOP/s (operations on integers too).
std::string unit_of(const Ceiling& ceiling) { return ceiling.name == "read" ? "GB/s" : "GFLOP/s"; }

Json best_and_median(const std::vector<double>& rates) {
  return {{"best", *std::max_element(rates.begin(), rates.end()) / 1e9}, {"median", median(rates) / 1e9}};
}

}  // namespace

double Result::share() const {
  std::vector<double> shares;
  for (std::size_t i = 0; i < seconds.size(); ++i) shares.push_back(rates[i].seconds(work) / seconds[i]);
  return median(shares);
}

bool Result::memory_binds() const {
  std::vector<double> differences;
  for (const Rates& rate : rates) differences.push_back(rate.memory_seconds(work) - rate.arithmetic_seconds(work));
  return median(differences) > 0;
}

std::string Report::ceiling_name(const Result& result) const {
  if (result.memory_binds()) return result.from_cache ? "reading it" : "read";
  return result.work.integer_products > result.work.products ? ceilings_.name_of_integer_products()
                                                             : ceilings_.name_of_products();
}

void Report::print_header(const std::string& title) const {
  fmt::print("\n{}\n{:<60} {:<10} {:>11} {:>11} {:>9} {:>8}  {}\n", title, "", "set", "best", "median", "GFLOP/s",
             "GB/s", "share of ceiling");
}

void Report::print(const Result& result) const {
  const double seconds = result.typical();
  const std::string what = result.name + " " + result.shape;
  fmt::print("{:<60} {:<10} {:>11} {:>11} {:>9.1f} {:>8.2f}  {:5.1f} % {}\n", what, result.set,
             time_text(result.best()), time_text(seconds), result.work.operations() / seconds / 1e9,
             result.work.bytes / seconds / 1e9, 100 * result.share(), ceiling_name(result));
}

void Report::add(std::vector<Result> results) {
  for (const Result& result : results) {
    print(result);
    Json json = {{"model", result.model},
                 {"name", result.name},
                 {"set", result.set},
                 {"shape", result.shape},
                 {"threads", result.threads},
                 {"best_ns", result.best() * 1e9},
                 {"median_ns", result.typical() * 1e9},
                 {"worst_ns", result.worst() * 1e9},
                 {"repeats", result.seconds.size()},
                 {"flops", result.work.operations()},
                 {"bytes", result.work.bytes},
                 {"gflops", result.work.operations() / result.typical() / 1e9},
                 {"gbps", result.work.bytes / result.typical() / 1e9},
                 {"share", result.share()},
                 {"ceiling", ceiling_name(result)}};
    if (result.layer >= 0) {
      json.update({{"layer", result.layer},
                   {"role", result.role},
                   {"ratio", result.ratio},
                   {"context", result.context},
                   {"tokens", result.tokens}});
    }
    results_.push_back(std::move(json));
  }
  if (results.size() == 2) {
    const Result &ours = results[0], &other = results[1];
    const double typical = other.typical() / ours.typical(), best = other.best() / ours.best();
    fmt::print("{:>60} {} is {:.2f} times as fast as {} by medians, {:.2f} by bests\n", "", ours.set, typical,
               other.set, best);
    Json json = results_[results_.size() - 2];
    Json ratio = {{"set", ours.set}, {"against", other.set}, {"median", typical}, {"best", best}};
    for (const char* key : {"model", "name", "shape", "threads", "layer", "context", "tokens"}) {
      if (json.contains(key)) ratio[key] = json[key];
    }
    ratios_.push_back(std::move(ratio));
  }
  std::fflush(stdout);
}

void Report::print_ceilings() const {
  fmt::print("\nceilings of this machine, best and median of all measurements\n");
  for (const Ceiling& ceiling : ceilings_.all()) {
    const auto text = [](const std::vector<double>& rates) {
      return fmt::format("{:>9.1f} {:>9.1f}", *std::max_element(rates.begin(), rates.end()) / 1e9, median(rates) / 1e9);
    };
    fmt::print("{:<16} one thread {}   {} threads {}  {}\n", ceiling.name, text(ceiling.one), ceilings_.threads(),
               text(ceiling.all), unit_of(ceiling));
  }
}

Json Report::json() const {
  Json ceilings = Json::object();
  for (const Ceiling& ceiling : ceilings_.all()) {
    ceilings[ceiling.name] = {{"unit", unit_of(ceiling)},
                              {"one_thread", best_and_median(ceiling.one)},
                              {"all_threads", best_and_median(ceiling.all)}};
  }
  return {{"machine", machine_json()},
          {"threads", ceilings_.threads()},
          {"ceilings", ceilings},
          {"results", results_},
          {"ratios", ratios_}};
}

}  // namespace skim::bench
