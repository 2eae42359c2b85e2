// A case file from any bytes: its metadata, configuration, calls and tensor shapes.
#include "driver.hpp"
#include "repair_safetensors.hpp"
#include "skim/safetensors.hpp"
#include "verify/case_file.hpp"

namespace {

/// Takes apart whatever is recorded under a name that replay would ask for.
void read_recorded(const skim::CaseFile& file, std::int64_t call, int layer) {
  for (const skim::RecordedKind& kind : file.kinds()) {
    const auto recorded = file.recorded(call, layer, kind);
    if (!recorded || recorded->row_count() == 0) continue;
    const int last = file.calls()[static_cast<std::size_t>(call)].batch - 1;
    if (kind.use == skim::RecordedUse::selection) {
      recorded->integers(last, recorded->row_count() - 1);
    } else if (kind.use == skim::RecordedUse::candidates) {
      recorded->booleans(last, recorded->row_count() - 1);
    } else {
      recorded->floats(last, recorded->row_count() - 1);
    }
  }
}

}  // namespace

void fuzz_one(std::span<const std::byte> input) {
  const skim::CaseFile file(skim::SafetensorsFile::parse(input, "input"));
  for (std::size_t call = 0; call < file.calls().size(); ++call) {
    for (const int layer : file.layers()) read_recorded(file, static_cast<std::int64_t>(call), layer);
  }
}

void repair(std::string& input) { fuzz::repair_safetensors(input); }
