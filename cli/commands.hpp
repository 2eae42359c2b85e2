// One function per command: it adds the command and its options; the callback runs it.
#pragma once

#include <CLI/CLI.hpp>

namespace skim::cli {

void add_run(CLI::App& app);
/// `failed` becomes true if a file does not verify.
void add_verify(CLI::App& app, bool& failed);
void add_info(CLI::App& app);
void add_bench(CLI::App& app);
/// `failed` becomes true if something differs.
void add_soak(CLI::App& app, bool& failed);

}  // namespace skim::cli
