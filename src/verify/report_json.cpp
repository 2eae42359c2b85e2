#include <cmath>
#include <nlohmann/json.hpp>

#include "skim/verify.hpp"

namespace skim {
namespace {

using Json = nlohmann::ordered_json;

/// JSON has no infinity: null, which a reader takes for "cannot be compared".
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json numbers(const std::vector<float>& values) {
  Json list = Json::array();
  for (const float value : values) list.push_back(number(value));
  return list;
}

/// Only what applies.
Json place_json(const VerifyPlace& place) {
  Json object = Json::object();
  if (place.call >= 0) object["call"] = place.call;
  if (place.layer >= 0) object["layer"] = place.layer;
  if (place.sequence >= 0) object["sequence"] = place.sequence;
  if (place.row >= 0) object["row"] = place.row;
  if (place.head >= 0) object["head"] = place.head;
  return object;
}

Json kind_json(const VerifyKind& kind) {
  Json object = {{"name", kind.name}, {"compared", kind.compared}};
  if (kind.layer >= 0) object["layer"] = kind.layer;
  object["worst"] = number(kind.worst);
  object["allowed"] = kind.allowed;
  object["where"] = kind.where;
  if (kind.selection) {
    object["exchanged_rows"] = kind.exchanged_rows;
  } else {
    object["worst_row"] = number(kind.worst_row);
    object["row_allowed"] = kind.row_allowed;
    object["worst_row_place"] = place_json(kind.worst_row_place);
  }
  if (kind.first_beyond) object["first_beyond"] = place_json(*kind.first_beyond);
  object["passed"] = kind.passed;
  return object;
}

Json tensor_json(const VerifyTensor& tensor) {
  return {{"name", tensor.name},
          {"place", place_json(tensor.place)},
          {"error", number(tensor.error)},
          {"batch", tensor.batch},
          {"rows", tensor.row_numbers},
          {"heads", tensor.heads},
          {"row_errors", numbers(tensor.row_errors)},
          {"worst",
           {{"place", place_json(tensor.worst.place)},
            {"got", numbers(tensor.worst.got)},
            {"want", numbers(tensor.worst.want)}}}};
}

Json hypothesis_json(const VerifyHypothesis& hypothesis) {
  return {{"name", hypothesis.name},
          {"mistake", hypothesis.mistake},
          {"error", number(hypothesis.error)},
          {"fits", hypothesis.fits}};
}

template <class List, class Convert>
Json list_json(const List& list, Convert convert) {
  Json array = Json::array();
  for (const auto& entry : list) array.push_back(convert(entry));
  return array;
}

}  // namespace

std::string report_json(const VerifyReport& report) {
  Json object = {{"file", report.file}, {"model", report.model}, {"kernels", report.kernels}};
  object["passed"] = report.passed();
  object["kinds"] = list_json(report.kinds, kind_json);
  object["layers"] = list_json(report.layers, kind_json);
  object["ignored"] = report.ignored;
  object["empty"] = report.empty;
  if (!report.passed()) {
    object["first_failure"] = {
        {"text", report.first_failure},  {"tensor", report.tensor}, {"place", place_json(report.place)},
        {"error", number(report.error)}, {"shape", report.shape},   {"places", list_json(report.places, place_json)}};
    object["hypotheses"] = list_json(report.hypotheses, hypothesis_json);
    object["advice"] = report.advice;
    object["failing"] = list_json(report.failing, tensor_json);
  }
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace skim
