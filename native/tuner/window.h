// What happened in the last W seconds, enough to replay it: workflows with their arrivals, calls, true
// lengths, parents and tool gaps.
//
// It reads the scheduler's own record of events (scheduler/log.h), the same live, in a simulation and in a
// replay. A workflow is kept while it is open and until W after its last finish; arrivals until W after they
// happened. A workflow is complete when it is closed and every revealed call has finished.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "scheduler/events.h"

namespace laxity {

struct WindowCall {
  std::uint16_t stage = 0;
  std::uint16_t model = 0;
  std::uint32_t promptTokens = 0;
  std::uint32_t predictedTokens = 0;
  std::uint32_t outputTokens = 0;  ///< true; 0 = not finished yet
  std::uint32_t cachedTokens = 0;  ///< of the prompt: the most that an instance held when it was revealed
  Nanos gap = 0;                   ///< from the last parent's finish, or the arrival, to ready
  Nanos finishedAt = -1;
  std::uint32_t firstParent = 0;  ///< into WindowWorkflow::parents
  std::uint32_t parentCount = 0;
};

struct WindowWorkflow {
  Ref ref{};
  std::uint16_t tenant = 0;
  std::int16_t stageTemplate = -1;
  Nanos arrival = 0;
  Nanos allowed = -1;  ///< from arrival to deadline, -1 = no deadline
  Nanos lastFinish = 0;
  std::uint32_t unfinished = 0;
  bool lost = false;  ///< a call was cancelled, rejected or failed for good: no replay of it
  std::vector<WindowCall> calls;
  std::vector<std::uint32_t> parents;  ///< local indices

  Nanos latency() const { return lastFinish - arrival; }
};

/// A call that the scheduler knows, as far as it was seen.
struct SeenCall {
  std::uint32_t generation = 0;
  std::uint32_t workflow = kNoSlot;  ///< slot
  std::uint32_t local = 0;
  std::uint32_t generated = 0;  ///< before evictions
  bool hasChild = false;
  bool live = false;
  bool toolPending = false;
};

class Window {
 public:
  explicit Window(Nanos length) : length_(length) {}

  /// The workflow that ended complete with this event, or null. It stays valid until the next call.
  const WindowWorkflow* observe(const EventRecord& record);
  void expire(Nanos t);

  const std::deque<WindowWorkflow>& complete() const { return complete_; }
  const std::deque<Nanos>& arrivals() const { return arrivals_; }
  /// Workflows under way, by slot; ref.slot = kNoSlot where there is none.
  const std::vector<WindowWorkflow>& running() const { return open_; }
  Nanos length() const { return length_; }

 private:
  SeenCall* find(const Ref& call) {
    if (call.slot >= calls_.size()) return nullptr;
    SeenCall& c = calls_[call.slot];
    return c.live && c.generation == call.generation ? &c : nullptr;
  }
  void opened(Nanos t, const OpenWorkflow& e);
  void revealed(Nanos t, const Reveal& e);
  void ended(const Ref& call, Nanos t, std::uint32_t outputTokens);
  const WindowWorkflow* closed(const Ref& workflow);

  Nanos length_;
  std::vector<WindowWorkflow> open_;
  std::vector<SeenCall> calls_;
  std::vector<std::vector<Ref>> named_;  ///< by workflow slot: its calls, in order of reveal
  std::vector<Ref> moreParents_;
  std::deque<WindowWorkflow> complete_;
  std::deque<Nanos> arrivals_;
};

}  // namespace laxity
