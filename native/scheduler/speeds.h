// Service times of backends about which only the URL is known, from the leases they served.
//
// Assumes first tokens and finishes with output tokens. Procedure, per latency model that is to be learned:
// prefill per token = (first token - max(lease, first token before it on that instance)) / prompt tokens;
// decode per token = (finish - first token) / (output - 1), or where the first token was not seen, what the
// prefill at the present speed leaves. Running means of the first 16 observations, then exponential with
// weight 1/16. The model in use is replaced when a mean lies more than 1/8 off it, at most once in 16
// observations after the first 16: every estimate of every waiting call is computed again with it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "model/latency.h"

namespace laxity {

class Speeds {
 public:
  void learn(std::uint32_t latency, const LatencyConstants& start);
  void fix(std::uint32_t latency);  ///< its constants were given: nothing to learn
  bool learns(std::uint32_t latency) const { return latency < models_.size() && models_[latency].on; }
  bool learnsAny() const;
  const LatencyConstants& inUse(std::uint32_t latency) const { return models_[latency].used; }

  /// Durations in ns; 0 = not seen. True where another model is to be used: `inUse`.
  bool observe(std::uint32_t latency, Nanos prefill, std::uint32_t promptTokens, Nanos decode,
               std::uint32_t steps);

 private:
  struct Mean {
    double ms = 0;
    std::uint32_t count = 0;
    void add(double value);
    bool far(double used) const;
  };
  struct Model {
    bool on = false;
    LatencyConstants used;
    Mean prefill;
    Mean decode;
    std::uint32_t sinceChange = 0;
  };
  std::vector<Model> models_;
};

}  // namespace laxity
