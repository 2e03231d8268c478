// The ledger derived once more from the calls: what must hold after every event.
#include "scheduler/scheduler.h"

namespace laxity {

bool Scheduler::audit() const {
  std::vector<Ledger> derived(cluster_.size());
  std::vector<Backlog> backlogs(cluster_.size());
  std::vector<std::uint32_t> waitingOf(waitingOf_.size(), 0);
  std::vector<std::size_t> waitingOn(queues_.size(), 0);
  std::vector<std::size_t> waitingFor(shared_.size(), 0);
  std::vector<std::uint32_t> unfinished(graph_.workflowSlots(), 0);
  for (std::uint32_t slot = 0; slot < graph_.callSlots(); ++slot) {
    const Call& c = graph_.call(slot);
    if (c.state == CallState::kFree) continue;
    if (!terminal(c.state)) ++unfinished[c.workflow];
    if (c.state == CallState::kWaiting) {
      const IndexedHeap& queue = queueOf(c);
      if (c.heapPosition >= queue.size() || queue.entries()[c.heapPosition].slot != slot) return false;
      // A key is issued again in the next place, where its inputs have changed.
      const bool stale = graph_.workflow(c.workflow).dirty;
      if (!stale && queue.entries()[c.heapPosition].key != staticKey(c, c.instance)) return false;
      if (c.instance == kNoSlot) {
        ++waitingFor[c.model];
        continue;
      }
      ++waitingOn[c.instance];
      derived[c.instance].assign(c.cost);
      if (tracksBacklog_) {
        backlogs[c.instance].enter(c.cost);
        ++waitingOf[c.model];
      }
    } else if (leased(c.state) && pairs_ == nullptr) {
      derived[c.instance].assign(c.cost);
      derived[c.instance].lease(c.cost, 0);
      if (c.state != CallState::kPrefilling) derived[c.instance].firstToken(c.cost, 0);
      if (c.state == CallState::kPrefilling && tracksBacklog_) backlogs[c.instance].lease(c.cost);
    } else if (c.instance != kNoSlot && !terminal(c.state) && !leased(c.state)) {
      return false;
    }
  }
  if (pairs_ != nullptr && !auditPairs(&derived, &backlogs, &waitingOn)) return false;
  for (std::uint32_t m = 0; m < cluster_.size(); ++m) {
    const Instance& i = cluster_.at(m);
    derived[m].prefillsEnd = i.ledger.prefillsEnd;  // a projection, not a sum
    derived[m].work += i.correction;
    if (!(derived[m] == i.ledger) || queues_[m].size() != waitingOn[m]) return false;
    if (drawsLines_ && lines_[m].size() != queues_[m].size()) return false;
    if (!(backlogs[m] == i.backlog)) return false;
    const HardwareClass& k = cluster_.classes()[i.hardwareClass];
    if (k.work.value(i.memberIndex) != (i.accepts() ? cluster_.load(i) : kNever)) return false;
    std::uint32_t leases = 0;
    const bool decodes = i.spec.role == Role::kDecode;
    for (std::uint32_t c = i.firstLease; c != kNoSlot;
         c = decodes ? pairs_->call(c).nextOnDecode : graph_.call(c).nextLease) {
      leases += graph_.call(c).sequences;
    }
    if (leases != i.ledger.leased) return false;
  }
  if (waitingOf != waitingOf_) return false;
  for (std::size_t model = 0; model < shared_.size(); ++model) {
    if (shared_[model].size() != waitingFor[model]) return false;
  }
  for (std::uint32_t w = 0; w < graph_.workflowSlots(); ++w) {
    if (graph_.workflow(w).live && graph_.workflow(w).unfinished != unfinished[w]) return false;
  }
  return auditLive();
}

}  // namespace laxity
