#include "cache/pages.hpp"

namespace skim {

void PageTable::fit(std::int64_t rows) {
  const auto wanted = static_cast<std::size_t>(pages_for(rows));
  if (wanted < pages_.size()) {
    pages_.resize(wanted);
    starts_.resize(wanted);
    return;
  }
  pages_.reserve(wanted);
  starts_.reserve(wanted);
  while (pages_.size() < wanted) {
    pages_.emplace_back(*memory_, page_bytes());
    starts_.push_back(pages_.back().data());
  }
}

}  // namespace skim
