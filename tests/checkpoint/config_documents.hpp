// A configuration written down in either spelling.
#pragma once

#include <string>

#include "skim/config.hpp"

namespace skim::test {

/// config.json of a released model: Hugging Face names, those of V4.1 under text_config.
std::string released_text(const Config& config);

/// DeepSeek's inference configuration. That of V3.2 has no model_type.
std::string inference_text(const Config& config);

}  // namespace skim::test
