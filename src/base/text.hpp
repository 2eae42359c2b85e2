// Texts from files in messages.
#pragma once

#include <string>
#include <string_view>

namespace skim {

/// `text` made printable and cut off after about 60 bytes (between characters).
std::string shortened(std::string_view text);

}  // namespace skim
