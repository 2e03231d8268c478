#include "scheduler/speeds.h"

#include <algorithm>

namespace laxity {
namespace {

constexpr std::uint32_t kWarm = 16;
// The range of LatencyModel::constants.
constexpr double kLeastMs = 1e-6;
constexpr double kMostMs = 100;
constexpr double kMostDecodeMs = 100'000;

}  // namespace

void Speeds::Mean::add(double value) {
  if (count < kWarm) ++count;
  ms += (value - ms) / count;
}

bool Speeds::Mean::far(double used) const { return count > 0 && (ms > used * 1.125 || ms < used * 0.875); }

void Speeds::learn(std::uint32_t latency, const LatencyConstants& start) {
  if (models_.size() <= latency) models_.resize(std::size_t{latency} + 1);
  models_[latency] = Model{};
  models_[latency].on = true;
  models_[latency].used = start;
}

void Speeds::fix(std::uint32_t latency) {
  if (latency < models_.size()) models_[latency].on = false;
}

bool Speeds::learnsAny() const {
  return std::any_of(models_.begin(), models_.end(), [](const Model& m) { return m.on; });
}

bool Speeds::observe(std::uint32_t latency, Nanos prefill, std::uint32_t promptTokens, Nanos decode,
                     std::uint32_t steps) {
  Model& m = models_[latency];
  if (prefill > 0) m.prefill.add(std::clamp(toMs(prefill) / promptTokens, kLeastMs, kMostMs));
  if (decode > 0 && steps > 0) m.decode.add(std::clamp(toMs(decode) / steps, kLeastMs, kMostDecodeMs));
  ++m.sinceChange;
  if (m.sinceChange < kWarm && m.prefill.count == kWarm && m.decode.count == kWarm) return false;
  const bool prefillFar = m.prefill.far(m.used.prefillPerTokenMs);
  const bool decodeFar = m.decode.far(m.used.decodeBaseMs);
  if (!prefillFar && !decodeFar) return false;
  if (prefillFar) m.used.prefillPerTokenMs = m.prefill.ms;
  if (decodeFar) m.used.decodeBaseMs = m.decode.ms;
  m.sinceChange = 0;
  return true;
}

}  // namespace laxity
