// The part of fmt that is otherwise in a library of its own, compiled in: neither libskim.so nor the Python module
// should need a libfmt that a machine may lack. In this one file fmt is header-only; the others leave its functions
// undefined and find them here, whichever version of fmt it is.
#define FMT_HEADER_ONLY
#include <fmt/format.h>

#include <cstdio>
#include <string>

namespace skim {

/// Never called. Formats a value of each kind that messages have, so that all functions behind them are in this file.
std::string instantiate_fmt(std::FILE* file, fmt::string_view format, fmt::format_args arguments) {
  std::string text = fmt::format("{} {:c} {:<5d} {:#x} {:L} {:>6.1f} {:g} {:L} {} {} {:?}", true, 'c', -1, 2u, 3ll,
                                 4.0f, 5.0, 6.0L, static_cast<const void*>(file), fmt::string_view("text"), "quoted");
  fmt::vprint(format, arguments);
  fmt::vprint(file, format, arguments);
  fmt::format_to(std::back_inserter(text), "{}", 7);
  return text + fmt::vformat(format, arguments);
}

}  // namespace skim
