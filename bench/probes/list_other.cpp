// Processors whose instruction sets have no probes of their own.
#include "bench/probes/probe_list.hpp"

namespace skim::bench {

std::vector<Probe> available_probes() { return {{"float_baseline", false, baseline::float_products}}; }
ReadLoop available_read() { return baseline::read; }
std::vector<std::string> available_features() { return {}; }

}  // namespace skim::bench
