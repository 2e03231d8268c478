// What the metamorphic relations of unified and of prefill-decode clusters share: settings, other forms of a
// trace or a cluster, and comparisons of columns.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "queueing.h"

namespace laxity::trial {

inline constexpr Binding kBindings[] = {Binding::kAtReveal, Binding::kAtCredit};
inline constexpr Feedback kFeedbacks[] = {Feedback::kBoundary, Feedback::kLease};

inline void setParameter(RunOptions* options, Parameter p, double value) {
  REQUIRE(options->parameters.set(static_cast<std::uint16_t>(p), value));
}

inline std::vector<Nanos> nanos(const std::vector<double>& ms) {
  std::vector<Nanos> out;
  for (const double value : ms) out.push_back(std::isfinite(value) ? fromMs(value) : kNever);
  return out;
}

inline bool scaledBy(const std::vector<double>& ms, const std::vector<double>& base, Nanos x) {
  const std::vector<Nanos> a = nanos(ms), b = nanos(base);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != (b[i] == kNever ? kNever : x * b[i])) return false;
  }
  return true;
}

/// One renaming explains the column.
inline bool renamed(const std::vector<std::uint16_t>& a, const std::vector<std::uint16_t>& b) {
  std::map<std::uint16_t, std::uint16_t> name, back;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (name.try_emplace(a[i], b[i]).first->second != b[i]) return false;
    if (back.try_emplace(b[i], a[i]).first->second != a[i]) return false;
  }
  return true;
}

/// The workflows of one model, or all (kNoSlot), later by `shift`, appended to `to`.
inline void append(const OwnedTrace& from, std::uint32_t model, Nanos shift, OwnedTrace* to) {
  for (std::uint32_t w = 0; w < from.workflows(); ++w) {
    if (model != kNoSlot && from.model[from.firstCall[w]] != model) continue;
    to->workflow(shift + fromMs(from.arrivalMs[w]));
    for (std::uint32_t row = from.firstCall[w]; row < from.firstCall[w + 1]; ++row) {
      OwnedTrace::CallSpec c{.prompt = from.prompt[row],
                             .output = from.output[row],
                             .gap = fromMs(from.gapMs[row]),
                             .stage = from.stage[row],
                             .model = from.model[row],
                             .predicted = from.predicted[row]};
      c.parents.assign(from.parents.begin() + from.parentOffset[row],
                       from.parents.begin() + from.parentOffset[row + 1]);
      to->call(c);
    }
  }
}

/// The instances and workflows of each model run as `options` say where they are alone.
template <class Hardware>
void checkModelsApart(const OwnedTrace& both, const Hardware& mixed, const RunOptions& options) {
  const Run together = run(both, mixed.cluster(), options);
  REQUIRE(ok(together.status));
  for (std::uint16_t model = 0; model < 2; ++model) {
    Hardware part;
    part.costs = mixed.costs;
    for (const InstanceSpec& spec : mixed.instances) {
      if (spec.model == model) part.instances.push_back(spec);
    }
    OwnedTrace own;
    own.predictions = both.predictions;
    append(both, model, 0, &own);
    std::vector<double> expected;
    for (std::uint32_t w = 0; w < both.workflows(); ++w) {
      if (both.model[both.firstCall[w]] == model) expected.push_back(together.latencyMs[w]);
    }
    const Run alone = run(own, part.cluster(), options);
    REQUIRE(ok(alone.status));
    CHECK(alone.latencyMs == expected);
  }
}

}  // namespace laxity::trial
