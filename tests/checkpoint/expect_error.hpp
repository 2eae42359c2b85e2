// Errors as tests ask for them: the right code, one line, the words that a reader needs.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "skim/error.hpp"

namespace skim::test {

/// `action` must throw an Error of this code with a message of one line that holds all the words. Returns the message.
template <class Action>
std::string expect_error(ErrorCode code, const std::vector<std::string>& words, const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(error.code(), code) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    for (const std::string& word : words) {
      EXPECT_NE(message.find(word), std::string::npos) << "'" << word << "' is not in: " << message;
    }
    return message;
  } catch (const std::exception& error) {
    ADD_FAILURE() << "not an Error of this library: " << error.what();
    return {};
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

}  // namespace skim::test
