#include "workload/arrivals.h"

namespace laxity {
namespace {

// Keeps the draws apart from those of other users of the same seed.
constexpr std::uint64_t kArrivalSeed = 0x6172726976616c73u;

Nanos fromSeconds(double seconds) {
  const double ns = seconds * 1e9 + 0.5;
  return ns < static_cast<double>(kMaxTime) ? static_cast<Nanos>(ns) : kMaxTime;
}

}  // namespace

Status Arrivals::check(const Options& options) {
  switch (options.process) {
    case ArrivalProcess::kPoisson:
    case ArrivalProcess::kFixed:
      return options.rate >= kMinArrivalRate && options.rate <= kMaxArrivalRate ? Status::kOk
                                                                                : Status::kBadValue;
    case ArrivalProcess::kTrace:
      return options.recordedMs.empty() ? Status::kBadValue : Status::kOk;
  }
  return Status::kBadValue;
}

Arrivals::Arrivals(const Options& options)
    : options_(options), random_(options.seed ^ kArrivalSeed, options.replication) {}

Nanos Arrivals::next() {
  const std::uint64_t i = count_++;
  switch (options_.process) {
    case ArrivalProcess::kPoisson:
      elapsed_ += random_.exponential(1 / options_.rate);
      return fromSeconds(elapsed_);
    case ArrivalProcess::kFixed:
      return fromSeconds(static_cast<double>(i) / options_.rate);
    case ArrivalProcess::kTrace:
      break;
  }
  return i < options_.recordedMs.size() ? fromMs(options_.recordedMs[i]) : kNever;
}

}  // namespace laxity
