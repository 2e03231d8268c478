// Records as a log or the ring holds them, any bytes: applied or refused, the core stays sound, and what it
// logged of them makes every decision again.
#include "scheduler/log.h"

#include <cstring>
#include <span>

#include "byte_random.h"
#include "order/registry.h"
#include "placement/pair_registry.h"
#include "placement/registry.h"
#include "scheduler/scheduler.h"

using namespace laxity;

namespace {

constexpr std::size_t kHeader = 4;  // order, placement, switches, lookahead
constexpr std::size_t kMostRecords = 512;

SchedulerConfig configOf(const std::uint8_t* data) {
  SchedulerConfig c;
  const auto orders = orderNames();
  makeOrder(orders[data[0] % orders.size()], &c.order);
  const auto placements = placementNames();
  makePlacement(placements[data[1] % placements.size()], &c.placement);
  const auto pairPlacements = pairPlacementNames();
  makePairPlacement(pairPlacements[data[1] % pairPlacements.size()], &c.pairPlacement);
  c.binding = (data[2] & 1) != 0 ? Binding::kAtCredit : Binding::kAtReveal;
  c.feedback = (data[2] & 2) != 0 ? Feedback::kBoundary : Feedback::kLease;
  c.migrate = (data[2] & 4) != 0;
  c.pairs.reserve = (data[2] & 8) != 0 ? Reserve::kLate : Reserve::kEarly;
  c.pairs.admission = (data[2] & 16) != 0 ? DecodeAdmission::kEngine : DecodeAdmission::kScheduler;
  c.pairs.planning = (data[2] & 32) != 0 ? Planning::kAsync : Planning::kSync;
  c.pairs.lateDecode = (data[2] & 64) != 0;
  c.pairs.backfill = (data[2] & 128) != 0;
  c.lookahead = data[3] % 4;
  for (const LatencyConstants& constants :
       {LatencyConstants{0, 1, 1, 0, 0}, LatencyConstants{1, 0.5, 2, 0.1, 0.001}}) {
    c.latencies.emplace_back();
    LatencyModel::constants(constants, &c.latencies.back());
  }
  c.templates = {{{0, 10, 10}, {1, 20, 10}}};
  return c;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < kHeader + sizeof(EventRecord) || size > kHeader + kMostRecords * sizeof(EventRecord)) return -1;
  const SchedulerConfig config = configOf(data);
  Scheduler scheduler(config);
  EventLog log;
  scheduler.setLog(&log);
  const std::size_t records = (size - kHeader) / sizeof(EventRecord);
  for (std::size_t i = 0; i < records; ++i) {
    EventRecord record;
    std::memcpy(&record, data + kHeader + i * sizeof record, sizeof record);
    if (record.header.kind == EventKind::kDecide) {
      scheduler.decide(record.header.t);
      fuzz::require(scheduler.audit(), "audit after decide");
    } else if (record.header.kind != EventKind::kDecision) {
      scheduler.apply(record);
    }
  }
  scheduler.decide(scheduler.now());
  fuzz::require(scheduler.audit(), "audit at the end");

  Scheduler again(config);
  std::span<const Decision> made;
  std::size_t at = 0;
  for (const EventRecord& r : log.records()) {
    if (r.header.kind == EventKind::kDecide) {
      made = again.decide(r.header.t);
      at = 0;
      fuzz::require(made.size() == r.header.count, "replay: another number of decisions");
    } else if (r.header.kind == EventKind::kDecision) {
      fuzz::require(std::memcmp(&made[at++], &r.decision, sizeof(Decision)) == 0, "replay: another decision");
    } else {
      fuzz::require(ok(again.apply(r)), "replay: a logged event was refused");
    }
  }
  return 0;
}
