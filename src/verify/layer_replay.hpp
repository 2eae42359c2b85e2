// Watches one layer of one call: hands what it sees to the judges, which put recorded selections in place.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "skim/trace.hpp"
#include "verify/case_file.hpp"
#include "verify/numeric_judge.hpp"
#include "verify/report_builder.hpp"
#include "verify/selection_judge.hpp"
#include "verify/window_rings.hpp"

namespace skim {

class LayerReplay final : public Trace {
 public:
  struct Place {
    std::int64_t call;
    int layer;
  };

  LayerReplay(const CaseFile& file, Place place, WindowRings& rings, ReusedVerdicts& reused,
              const VerifyOptions& options);

  bool wants(std::string_view name) override;
  void rows(const TraceRows& event) override;
  void scores(const TraceScores& event) override;
  void candidates(const TraceSelection& event) override { selections_.candidates(event); }
  void selection(const TraceSelection& event) override { selections_.selection(event); }
  void progress(int layer, std::int64_t done, std::int64_t total) override;

  /// After the layer has run: everything judged goes into the report.
  void judge(ReportBuilder& report);

 private:
  void compare_ring();
  void report_set(ReportBuilder& report, const RecordedKind& kind) const;

  const CaseFile& file_;
  Place place_;
  const CaseCall& call_;
  LayerRole role_;
  WindowRings& rings_;
  const VerifyOptions& options_;
  NumericJudge numbers_;
  SelectionJudge selections_;
};

}  // namespace skim
