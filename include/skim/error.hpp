// The one exception type of the library.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace skim {

/// What kind of thing went wrong. Each code keeps its number: bindings hand the numbers out.
enum class ErrorCode {
  invalid_argument = 1,  ///< A value passed by the caller does not fit (shape, position, name, option).
  bad_file = 2,          ///< A file is truncated, damaged or not of the format it claims.
  bad_config = 3,        ///< A model configuration is incomplete or asks for something that cannot work.
  tensor_mismatch = 4,   ///< A checkpoint lacks a tensor, or holds one of the wrong shape or dtype.
  wrong_order = 5,       ///< A call came too early or twice: a layer before its source, a commit before all layers.
  limit_exceeded = 6,    ///< A limit that the caller set (tokens, sequences, bytes) would be exceeded.
  out_of_memory = 7,     ///< The operating system refused memory.
  io = 8,                ///< The operating system refused to open, read or write.
  unavailable = 9,       ///< A named kernel set does not exist or does not run on this machine.
  cancelled = 10,        ///< A trace asked to stop.
};

/// `text` fit for one line of a terminal: valid UTF-8 without control characters. What is not (control characters of
/// ASCII and Unicode, marks that change the direction of text, line separators, other invisible marks, bytes that are
/// no UTF-8) is spelled out, e.g. "\x1b" or "\u202e".
std::string printable(std::string_view text);

/// Thrown by everything in skim. The message names the thing, what was found and what was expected, on one line.
class Error : public std::runtime_error {
 public:
  /// The message is made printable, since it may quote names and values from files.
  Error(ErrorCode code, std::string_view message);
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace skim
