// What a benchmark found: a line for each result as it comes, and everything as JSON in the end.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/ceilings.hpp"
#include "bench/sample.hpp"

namespace skim::bench {

struct Result {
  std::string model, set;
  std::string name, shape;  ///< Of an operation; of a layer "decode" or "prefill".
  int threads = 0;
  Work work;
  std::vector<double> seconds;  ///< Of each repeat.
  std::vector<Rates> rates;     ///< Of the machine just before each repeat.
  bool from_cache = false;      ///< rates.bytes is of reading the operand where it lies.

  int layer = -1;  ///< -1: a single operation. What follows is of layers only.
  std::string role;
  int ratio = 0;
  std::int64_t context = 0, tokens = 0;

  double best() const { return *std::min_element(seconds.begin(), seconds.end()); }
  double worst() const { return *std::max_element(seconds.begin(), seconds.end()); }
  double typical() const { return median(seconds); }
  /// Median, over repeats, of the least time at the rates of the moment by the time it took.
  double share() const;
  /// Whether reading memory takes longer than the arithmetic.
  bool memory_binds() const;
};

class Report {
 public:
  explicit Report(const Ceilings& ceilings) : ceilings_(ceilings) {}

  void print_header(const std::string& title) const;
  /// The results of one subject with each kernel set; the first is compared with the second, if there is one.
  void add(std::vector<Result> results);
  void print_ceilings() const;

  nlohmann::ordered_json json() const;

 private:
  std::string ceiling_name(const Result& result) const;
  void print(const Result& result) const;

  const Ceilings& ceilings_;
  nlohmann::ordered_json results_ = nlohmann::ordered_json::array(), ratios_ = nlohmann::ordered_json::array();
};

}  // namespace skim::bench
