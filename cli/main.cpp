// skim: DeepSeek sparse attention from the command line.
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <string>

#include "commands.hpp"
#include "help.hpp"
#include "messages.hpp"
#include "skim/error.hpp"

namespace {

constexpr int kBadInput = 1;
constexpr int kWrongUsage = 2;

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "DeepSeek sparse attention (V4.1, V3.2) on CPUs: run it, time it, check a port against it, look at checkpoints.",
      "skim"};
  app.formatter(std::make_shared<skim::cli::HelpFormatter>());  // commands inherit it
  app.set_version_flag("--version", "skim " SKIM_COMMAND_VERSION, "Print the version and exit");
  app.require_subcommand(0, 1);  // so that a word that is no command is named as such; see below for none
  app.footer(
      "Exit status: 0 success, 1 bad input, a recording that does not verify or a soak that finds a difference, 2 "
      "wrong usage.\n"
      "SKIM_KERNELS=<name> chooses a kernel set for every command.");
  bool failed = false;
  skim::cli::add_run(app);
  skim::cli::add_verify(app, failed);
  skim::cli::add_info(app);
  skim::cli::add_bench(app);
  skim::cli::add_soak(app, failed);
  try {
    app.parse(argc, argv);
    if (app.get_subcommands().empty()) throw CLI::RequiredError("One of the commands run, verify, info, bench, soak");
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    skim::cli::print_error(std::string(error.what()) + " (see skim --help)");
    return kWrongUsage;
  } catch (const std::bad_alloc&) {
    skim::cli::print_error("out of memory");
    return kBadInput;
  } catch (const std::exception& error) {
    skim::cli::print_error(error.what());
    return kBadInput;
  }
  if (std::fflush(stdout) != 0) {
    skim::cli::print_error("standard output: cannot be written");
    return kBadInput;
  }
  return failed ? kBadInput : 0;
}
