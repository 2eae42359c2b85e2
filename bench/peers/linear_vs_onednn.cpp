// linear with fp8 weights against oneDNN's matmul with weights in bf16 and float32, laid out as oneDNN likes them best
// before it is timed. They take turns, each with weights that come from memory.
#include <fmt/format.h>
#include <omp.h>

#include <CLI/CLI.hpp>
#include <dnnl.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/operations.hpp"
#include "bench/random.hpp"
#include "bench/sample.hpp"
#include "skim/error.hpp"

namespace skim::bench {
namespace {

using DataType = dnnl::memory::data_type;
using Layout = dnnl::memory::format_tag;

/// y = x W^T by oneDNN.
class DnnlLinear final : public Subject {
 public:
  /// Throws dnnl::error if oneDNN has no such matmul here.
  DnnlLinear(const LinearShape& shape, std::int64_t rows, DataType type)
      : stream_(engine_), type_(type), rows_(rows), in_(shape.format.in), out_(shape.format.out) {
    const dnnl::memory::desc any({in_, out_}, type, Layout::any);
    plan_ = dnnl::matmul::primitive_desc(
        dnnl::matmul::desc({{rows_, in_}, type, Layout::ab}, any, {{rows_, out_}, type, Layout::ab}), engine_);
    matmul_ = dnnl::matmul(plan_);
    x_ = filled({{rows_, in_}, type, Layout::ab});
    y_ = filled({{rows_, out_}, type, Layout::ab});
    dnnl::memory plain = filled({{in_, out_}, type, Layout::ba});
    const std::int64_t copies = copies_beyond_cache(static_cast<double>(plan_.weights_desc().get_size()));
    for (std::int64_t i = 0; i < copies; ++i) {
      weights_.emplace_back(plan_.weights_desc(), engine_);
      dnnl::reorder(plain, weights_.back()).execute(stream_, plain, weights_.back());
    }
    stream_.wait();
  }

  void run() override {
    matmul_.execute(stream_, {{DNNL_ARG_SRC, x_}, {DNNL_ARG_WEIGHTS, weights_[next_]}, {DNNL_ARG_DST, y_}});
    stream_.wait();
    next_ = (next_ + 1) % weights_.size();
  }
  std::string implementation() const { return plan_.impl_info_str(); }

 private:
  dnnl::memory filled(const dnnl::memory::desc& desc) {
    dnnl::memory memory(desc, engine_);
    const std::span<std::byte> bytes(static_cast<std::byte*>(memory.get_data_handle()), desc.get_size());
    if (type_ == DataType::bf16) {
      random_.fill(bytes, 0x80FF80FF80FF80FFu, 0x3F003F003F003F00u);
    } else {
      random_.fill(bytes, 0x80FFFFFF80FFFFFFu, 0x3F0000003F000000u);
    }
    return memory;
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_;
  DataType type_;
  RandomWords random_{1};
  std::int64_t rows_, in_, out_;
  dnnl::matmul::primitive_desc plan_;
  dnnl::matmul matmul_;
  dnnl::memory x_, y_;
  std::vector<dnnl::memory> weights_;
  std::size_t next_ = 0;
};

struct Contender {
  std::string name;
  std::unique_ptr<Subject> subject;
};

std::optional<Contender> dnnl_contender(const LinearShape& shape, std::int64_t rows, DataType type, const char* name) {
  try {
    auto linear = std::make_unique<DnnlLinear>(shape, rows, type);
    return Contender{fmt::format("oneDNN {} ({})", name, linear->implementation()), std::move(linear)};
  } catch (const dnnl::error&) {
    return {};  // e.g. bf16 without AVX-512
  }
}

void compare(const LinearShape& shape, std::int64_t rows, const KernelSet& set, Context& context, const Pace& pace) {
  const Operation operation = linear_operation(shape, rows);
  std::vector<Contender> contenders;
  contenders.push_back({std::string(set.name), operation.make(set, context)});
  for (const auto& [type, name] : {std::pair{DataType::bf16, "bf16"}, {DataType::f32, "f32"}}) {
    if (auto contender = dnnl_contender(shape, rows, type, name)) {
      contenders.push_back(std::move(*contender));
    } else {
      fmt::print("oneDNN has no {} matmul on this machine\n", name);
    }
  }
  std::vector<Sampler> samplers;
  for (const Contender& contender : contenders) {
    samplers.push_back(repeated([subject = contender.subject.get()] { subject->run(); }));
  }
  const auto rounds = take_turns(samplers, pace, [] {});
  fmt::print("{}\n", operation.title());
  double our_median = 0, our_best = 0;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    std::vector<double> seconds;
    for (const auto& round : rounds) seconds.push_back(round[i][0]);
    const double typical = median(seconds), best = *std::min_element(seconds.begin(), seconds.end());
    if (i == 0) our_median = typical, our_best = best;
    fmt::print("  {:<40} median {:>10.3f} ms, best {:>10.3f} ms, {:>8.1f} GFLOP/s", contenders[i].name, typical * 1e3,
               best * 1e3, operation.work.operations() / typical / 1e9);
    if (i == 0) {
      fmt::print(", {:.2f} GB/s of fp8 weights\n", shape.bytes / typical / 1e9);
    } else {
      fmt::print("; {} is {:.2f} times as fast by medians, {:.2f} by bests\n", contenders[0].name, typical / our_median,
                 best / our_best);
    }
  }
}

void compare_all(const std::vector<std::string>& models, const std::string& kernels, int threads, const Pace& pace) {
  const KernelSet& set = choose_kernel_set(kernels);
  Context context(threads);
  omp_set_num_threads(context.threads());  // oneDNN's
  for (const std::string& model : models) {
    const Checkpoint checkpoint = Checkpoint::synthetic(named_config(model));
    // A V4.1 layer of this kind has all shapes there are, each once.
    const std::vector<int> layers = layers_of_each_role(checkpoint.config());
    const auto full = std::find_if(layers.begin(), layers.end(), [&](int layer) {
      return layer_role(checkpoint.config(), layer).role == Role::full;
    });
    fmt::print("{}, {} threads\n", model, context.threads());
    for (const LinearShape& shape : linear_shapes(checkpoint, *full)) {
      if (!shape.format.is_fp8()) continue;
      for (const std::int64_t rows : {1, 512}) compare(shape, rows, set, context, pace);
    }
  }
}

}  // namespace
}  // namespace skim::bench

int main(int argc, char** argv) {
  CLI::App app{"linear with fp8 weights against oneDNN", "linear_vs_onednn"};
  std::vector<std::string> models = {"v41-flash", "v32"};
  std::string kernels;
  int threads = 0;
  skim::bench::Pace pace;
  app.add_option("--model", models, "Named configurations; default: v41-flash v32");
  app.add_option("--kernels", kernels, "Kernel set; default: the fastest here");
  app.add_option("--threads", threads, "Threads; default: one per processor");
  app.add_option("--repeats", pace.repeats, "Most repeats; default 9");
  app.add_option("--seconds", pace.seconds, "Time for each comparison; default 1");
  CLI11_PARSE(app, argc, argv);
  try {
    skim::bench::compare_all(models, kernels, threads, pace);
  } catch (const skim::Error& error) {
    fmt::print(stderr, "linear_vs_onednn: {}\n", error.what());
    return 1;
  }
}
