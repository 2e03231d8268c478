#include "workload/trace.h"

#include <algorithm>
#include <atomic>
#include <cmath>

namespace laxity {
namespace {

constexpr std::uint32_t kMaxCallsPerWorkflow = 1u << 24;

// Rounded down to a whole millisecond: fromMs of it is still at most kMaxTime, so sums of two stay
// representable.
constexpr double kMaxMs = static_cast<double>(kMaxTime / kMillisecond);

// False for NaN.
bool isTime(double ms) { return ms >= 0 && ms <= kMaxMs; }

bool isTokens(std::uint32_t tokens) { return tokens >= 1 && tokens <= kMaxTokens; }

// Columns of length 0 may be null.
bool complete(const TraceColumns& c) {
  if (c.firstCall == nullptr || c.parentOffset == nullptr) return false;
  if (c.calls > 0 && (c.stage == nullptr || c.promptTokens == nullptr || c.outputTokens == nullptr)) {
    return false;
  }
  return c.edges == 0 || c.parents != nullptr;
}

Status checkTimes(const TraceColumns& c, std::uint32_t w) {
  if (c.arrivalMs != nullptr) {
    if (!isTime(c.arrivalMs[w])) return Status::kBadTime;
    if (w > 0 && c.arrivalMs[w] < c.arrivalMs[w - 1]) return Status::kClockBackwards;
  }
  if (c.sloMs != nullptr && !std::isnan(c.sloMs[w]) && !(c.sloMs[w] > 0 && isTime(c.sloMs[w]))) {
    return Status::kBadTime;
  }
  return Status::kOk;
}

Status checkCall(const TraceColumns& c, std::uint32_t row) {
  if (!isTokens(c.promptTokens[row]) || !isTokens(c.outputTokens[row])) return Status::kBadTokens;
  if (c.cachedTokens != nullptr && c.cachedTokens[row] >= c.promptTokens[row]) return Status::kBadTokens;
  if (c.predictedTokens != nullptr && !isTokens(c.predictedTokens[row])) return Status::kBadTokens;
  if (c.toolGapMs != nullptr && !isTime(c.toolGapMs[row])) return Status::kBadTime;
  return Status::kOk;
}

std::atomic<std::uint64_t> nextIdentity{1};

}  // namespace

Status Trace::bind(const TraceColumns& columns) {
  *this = Trace();
  const auto fail = [this](Status status, std::uint32_t workflow, std::uint32_t call) {
    *this = Trace();
    problem_ = {status, workflow, call};
    return status;
  };
  const TraceColumns& c = columns;
  if (!complete(c)) return fail(Status::kBadValue, 0, 0);
  if (c.firstCall[0] != 0 || c.parentOffset[0] != 0) return fail(Status::kBadValue, 0, 0);

  // Two entries more than calls: children are counted two places up and placed one place up, after which
  // entry row is the start of row's children and row + 1 their end.
  childOffset_.assign(std::size_t{c.calls} + 2, 0);
  // Which row last named this local index as a parent, + 1: a repeat inside one row is a duplicate.
  std::vector<std::uint32_t> namedBy;

  for (std::uint32_t w = 0; w < c.workflows; ++w) {
    const std::uint32_t first = c.firstCall[w];
    const std::uint32_t end = c.firstCall[w + 1];
    // first <= calls holds from the previous round.
    if (end <= first || end > c.calls) return fail(Status::kBadValue, w, 0);
    const std::uint32_t size = end - first;
    if (size > kMaxCallsPerWorkflow) return fail(Status::kTooManyCalls, w, 0);
    if (const Status status = checkTimes(c, w); !ok(status)) return fail(status, w, 0);
    largestWorkflow_ = std::max(largestWorkflow_, size);
    if (c.tenant != nullptr) tenants_ = std::max(tenants_, std::uint32_t{c.tenant[w]} + 1);
    if (namedBy.size() < size) namedBy.resize(size, 0);

    for (std::uint32_t local = 0; local < size; ++local) {
      const std::uint32_t row = first + local;
      if (const Status status = checkCall(c, row); !ok(status)) return fail(status, w, local);
      largestCall_ = std::max(largestCall_, c.promptTokens[row] + c.outputTokens[row]);

      const std::uint32_t from = c.parentOffset[row];
      const std::uint32_t to = c.parentOffset[row + 1];
      if (to < from || to > c.edges) return fail(Status::kBadValue, w, local);
      for (std::uint32_t e = from; e < to; ++e) {
        const std::uint32_t parent = c.parents[e];
        if (parent >= local) return fail(Status::kCyclicParents, w, local);
        if (namedBy[parent] == row + 1) return fail(Status::kBadValue, w, local);
        namedBy[parent] = row + 1;
        ++childOffset_[std::size_t{first} + parent + 2];
      }
    }
  }
  if (c.firstCall[c.workflows] != c.calls || c.parentOffset[c.calls] != c.edges) {
    return fail(Status::kBadValue, c.workflows == 0 ? 0 : c.workflows - 1, 0);
  }

  // Counting sort. Rows ascend, so every list of children does.
  for (std::size_t i = 1; i < childOffset_.size(); ++i) childOffset_[i] += childOffset_[i - 1];
  children_.resize(c.edges);
  for (std::uint32_t w = 0; w < c.workflows; ++w) {
    const std::uint32_t first = c.firstCall[w];
    for (std::uint32_t row = first; row < c.firstCall[w + 1]; ++row) {
      for (std::uint32_t e = c.parentOffset[row]; e < c.parentOffset[row + 1]; ++e) {
        children_[childOffset_[std::size_t{first} + c.parents[e] + 1]++] = row;
      }
    }
  }
  columns_ = columns;
  identity_ = nextIdentity.fetch_add(1, std::memory_order_relaxed);
  return Status::kOk;
}

}  // namespace laxity
