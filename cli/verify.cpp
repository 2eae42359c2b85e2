// skim verify: replay recordings and judge every tensor in them.
#include <fmt/core.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "commands.hpp"
#include "messages.hpp"
#include "model_argument.hpp"
#include "output_file.hpp"
#include "progress.hpp"
#include "skim/error.hpp"
#include "skim/verify.hpp"

namespace skim::cli {
namespace {

struct VerifyArguments {
  std::vector<std::string> files;
  std::string kernels, model, html, dump;
  std::optional<double> tolerance;
  bool json = false;
};

void check_outputs(const VerifyArguments& arguments) {
  check_output(arguments.html);
  check_output(arguments.dump);
  if (arguments.files.size() > 1 && !(arguments.html.empty() && arguments.dump.empty())) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("--html and --dump take one FILE, found {}", arguments.files.size()));
  }
}

void write_outputs(const VerifyArguments& arguments, const VerifyReport& report) {
  if (!arguments.html.empty()) write_text(arguments.html, report_html(report));
  if (!arguments.dump.empty()) write_failing(report, arguments.dump);
}

/// Prints one report after the other; as JSON one value.
class Printer {
 public:
  Printer(bool json, std::size_t files) : json_(json), list_(json && files > 1) {
    if (list_) fmt::print("[");
  }
  ~Printer() {
    if (list_) fmt::print("]\n");
  }
  void print(const VerifyReport& report) {
    if (list_ && printed_++ > 0) fmt::print(",");
    fmt::print("{}", json_ ? report_json(report) : report_text(report));
  }

 private:
  bool json_, list_;
  int printed_ = 0;
};

void verify_files(const VerifyArguments& arguments, bool& failed) {
  check_outputs(arguments);
  VerifyOptions options;
  options.kernels = arguments.kernels;
  options.tolerance = arguments.tolerance;
  options.keep_failing = !arguments.dump.empty();
  if (!arguments.model.empty()) options.weights = open_model(arguments.model);
  Printer printer(arguments.json, arguments.files.size());
  for (const std::string& file : arguments.files) {
    ProgressLine progress;
    options.progress = [&](const std::string& doing) { progress.update(fmt::format("{}: {}", file, doing)); };
    try {
      const VerifyReport report = verify(file, options);
      progress.clear();
      printer.print(report);
      write_outputs(arguments, report);
      failed = failed || !report.passed();
    } catch (const Error& error) {  // the other files are still worth judging
      progress.clear();
      print_error(error.what());
      failed = true;
    }
  }
}

}  // namespace

void add_verify(CLI::App& app, bool& failed) {
  const auto arguments = std::make_shared<VerifyArguments>();
  CLI::App* command =
      app.add_subcommand("verify", "Replay recordings of another implementation and judge each tensor.");
  command
      ->add_option("FILE", arguments->files, "Case files (format: docs/cases.md); any subset of tensors may be there")
      ->required();
  command->add_option("--kernels", arguments->kernels, "Kernel set to run, e.g. reference; default: the fastest here");
  command
      ->add_option("--tolerance", arguments->tolerance,
                   "Allowed relative error of every numeric tensor, instead of the standard ones")
      ->check([](const std::string& text) {
        const bool number = std::atof(text.c_str()) >= 0;  // false for NaN; what is no number at all is refused later
        return number ? std::string() : "is " + text + ", expected a number of at least 0";
      });
  command->add_option("--model", arguments->model,
                      std::string("Take the weights from here, not from the file. ") + kModelHelp);
  command->add_flag("--json", arguments->json, "Print everything as JSON; of several FILEs a list");
  command->add_option("--html", arguments->html, "Write the report of one FILE to this page, with pictures of errors");
  command->add_option("--dump", arguments->dump,
                      "Write both sides of the failing tensors of one FILE to this safetensors file");
  command->footer(
      "Prints for each kind of tensor the worst relative error, where it was, and what is allowed. For topk_idxs and "
      "candidates the number is how far from the cut-off score an exchanged entry lies, relative to the largest "
      "score.\n"
      "Recorded selections replace the computed ones after they have been judged, so an early difference is not "
      "counted again later. Exit status 0 only if everything holds; otherwise the first failing call, layer and "
      "tensor are named, and the mistake that would explain it.");
  command->callback([arguments, &failed] { verify_files(*arguments, failed); });
}

}  // namespace skim::cli
