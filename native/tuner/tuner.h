// When to tune again: the recorded window, the detectors and their triggers. It makes no decision on the
// parameter by itself: sweep.h does, here or on another thread.
//
// Fed with the scheduler's record of events; no clock. The same object in a simulation (run_tuner.h) and
// live.
//
// Detectors:
//   welch    the paper's: every window, the ln(latency / SLO) of the current window against those of the
//   first
//            window after the last tuning, one-sided Welch t at welchLevel, at least kLeastSamples a side.
//            Its samples are not independent, so its true false-alarm rate is higher than its level: measured
//            in docs/auto-tuner.md.
//   ratio    Page-Hinkley on the same numbers, both directions, with thresholds calibrated by simulating
//            stationary hours (sweep.h).
//   service  Page-Hinkley on ln(actual / predicted) service of calls, per instance, both directions. Nearly
//            independent samples; the threshold is Siegmund's for the observed number of samples per hour,
//            the rate shared by the instances. It knows no load, so only its own
//            alarms restart it; calls leased before them do not count.
//   load     Page-Hinkley on the gaps between arrivals and on ln(time alone) of workflows, both directions:
//            what changes before latencies do. Thresholds from draws (sweep.h). The sweep that follows an
//            alarm on the gaps uses those since the change, where they are enough.
// An alarm asks for a sweep at once, from the last window, and for three more half a window, one and three
// windows later, from what happened since the alarm as soon as that is enough; it restarts the other
// detectors. In a lasting regime a sweep reads up to four windows.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "cluster/pair_options.h"
#include "tuner/page_hinkley.h"
#include "tuner/service.h"
#include "tuner/sweep.h"
#include "tuner/window.h"

namespace laxity {

inline constexpr Nanos kMemory = 4;  ///< windows
inline constexpr double kRatioFloor = 0.02;
inline constexpr double kServiceFloor = 0.05;

/// ln(latency / base), of positive finite times.
double logRatio(double latency, double base);

enum class TunerReason : std::uint8_t {
  kInitial = 0,
  kWelch,
  kRatioUp,
  kRatioDown,
  kServiceUp,
  kServiceDown,
  kRateUp,
  kRateDown,
  kWork,
  kInstance,  ///< one was lost, added, or returned
  kFollowUp,
  kPeriod,
};

struct TunerEvent {
  enum class Kind : std::uint8_t { kTrigger = 0, kKept = 1, kApplied = 2 };
  Nanos t = 0;
  Kind kind = Kind::kTrigger;
  TunerReason reason = TunerReason::kInitial;
  std::uint32_t instance = kNoSlot;  ///< of kService*
  double statistic = 0;              ///< of a trigger; its t where it is Welch's
  double threshold = 0;              ///< its level where it is Welch's, beside `p`
  double from = 0;
  double to = 0;
  double gain = 0;
  double p = 1;
  double regret = 0;
};

class Tuner {
 public:
  /// `pairs`: of prefill-decode clusters.
  Tuner(TunerOptions options, std::vector<LatencyModel> latencies, double current,
        const PairOptions& pairs = PairOptions{});

  void observe(const EventRecord& record);
  /// When `due` may turn true without an event.
  Nanos nextWake() const;
  /// A sweep is wanted now. Records triggers.
  bool due(Nanos t);
  /// Call when due; nothing further is due before `arrived`. False where the window holds too little: it is
  /// due again half a window later.
  bool begin(Nanos t, SweepInput* input);
  void arrived(Nanos t, const SweepResult& result);

  bool inFlight() const { return inFlight_; }
  double current() const { return current_; }
  const TunerOptions& options() const { return options_; }
  const std::vector<TunerEvent>& events() const { return events_; }
  const Window& window() const { return window_; }
  const Service& service() const { return service_; }

 private:
  void completed(Nanos t, const WindowWorkflow& w);
  void served(Nanos t, const ServiceSample& sample);
  void alarm(TunerEvent e);
  void restart(Nanos t);
  void welch(Nanos t);
  void arrived(Nanos t);
  bool test(PageHinkley& detector, const Thresholds& thresholds, double x, TunerEvent* e, TunerReason up,
            TunerReason down);
  double workOf(const WindowWorkflow& w) const;
  bool take(Nanos from, SweepInput* input) const;
  Nanos baseOf(const WindowWorkflow& w) const;

  TunerOptions options_;
  double current_;
  Window window_;
  Service service_;
  std::vector<TunerEvent> events_;

  bool inFlight_ = false;
  bool wanted_ = false;
  TunerReason reason_ = TunerReason::kInitial;
  bool tuned_ = false;  ///< a sweep was due
  bool answered_ = false;
  bool changed_ = true;  ///< the present regime is known to be another one than that of the value in force
  Nanos now_ = 0;
  Nanos started_ = -1;  ///< of the first arrival
  Nanos serviceSince_ = 0;
  Nanos since_ = 0;   ///< the other detectors began again
  Nanos regime_ = 0;  ///< of the last alarm: what is older is of another regime
  Nanos lastSweep_ = 0;
  std::vector<Nanos> followUps_;  ///< ascending
  std::uint64_t sweeps_ = 0;

  struct Sample {
    Nanos t;
    double x;
  };
  PageHinkley ratio_{kRatioFloor};
  PageHinkley arrivalTest_{kRatioFloor};
  PageHinkley workTest_{kRatioFloor};
  Thresholds ratioLimit_;
  Thresholds arrivalLimit_;
  Thresholds workLimit_;
  Nanos lastArrival_ = -1;
  Nanos gapsFrom_ = 0;             ///< gaps before it are of another rate
  std::vector<double> reference_;  ///< of the first window since since_
  std::deque<Sample> recent_;
  Nanos nextWelch_ = 0;
  std::vector<PageHinkley> serviceTests_;        ///< by instance
  std::vector<std::deque<Nanos>> serviceTimes_;  ///< of the samples of the last window
};

}  // namespace laxity
