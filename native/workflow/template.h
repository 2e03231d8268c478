// Stage templates: what a workflow of a kind is expected to do, as a chain of stage entries (CONTRACT 9).
//
// A workflow keeps one cursor into its template. A stage that appears moves the cursor behind the first entry
// of that stage at or after it; the entries skipped on the way are optional ones that did not happen and are
// dropped. A stage without such an entry is an extra round and leaves the cursor. So the expected rest is
// always a suffix, and its time a stored sum. HexGen-Flow's rule (entries removed as they happen, remaining
// `revise` dropped at `unit_tester`) is the special case for its chain (papers.md 1.3).
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "cluster/cluster.h"

namespace laxity {

struct TemplateEntry {
  std::uint16_t stage = 0;
  std::uint32_t promptTokens = 0;
  std::uint32_t outputTokens = 0;
};

/// Which decode iterations a call needs: HexGen-Flow's simulator emits no token in the prefill.
enum class FirstToken : std::uint8_t { kFromPrefill, kFromDecode };

/// Exclusive decode time of a whole output after its prefill.
inline Nanos decodeTime(const LatencyModel& latency, FirstToken first, std::uint32_t promptTokens,
                        std::uint32_t outputTokens) {
  const std::int64_t done = first == FirstToken::kFromPrefill ? 1 : 0;
  return latency.decodeAlone(promptTokens + done, outputTokens - done);
}

class StageTemplate {
 public:
  explicit StageTemplate(std::vector<TemplateEntry> entries) : entries_(std::move(entries)) {}

  std::uint32_t size() const { return static_cast<std::uint32_t>(entries_.size()); }
  const std::vector<TemplateEntry>& entries() const { return entries_; }

  /// The cursor after `stage` appeared.
  std::uint32_t advance(std::uint32_t cursor, std::uint16_t stage) const;

  /// Mean time of the entries from `cursor` on: one term per present instance. Valid after `price`.
  Nanos rest(std::uint32_t cursor) const { return rest_[cursor]; }

  /// Mean time of an entry, and its time on a class; entry = first with this stage, or size() if there is
  /// none.
  std::uint32_t entryOf(std::uint16_t stage) const;
  Nanos timeOn(std::uint32_t entry, std::uint32_t hardwareClass) const {
    return times_[entry * classes_ + hardwareClass];
  }

  /// Computes the times on the present cluster. Call again when its revision changes.
  void price(const Cluster& cluster, FirstToken first);

 private:
  std::vector<TemplateEntry> entries_;
  std::size_t classes_ = 0;
  std::vector<Nanos> times_;  ///< [entry][class]
  std::vector<Nanos> rest_;   ///< [size + 1]
};

/// Sum over present instances divided by their number (one term per instance), rounded down; 0 without
/// instances.
class ClusterMean {
 public:
  void add(Nanos time, std::uint32_t instances) {
    sum_ += static_cast<__int128_t>(time) * instances;
    count_ += instances;
  }
  Nanos value() const {
    if (count_ == 0) return 0;
    const auto low = static_cast<std::int64_t>(sum_);
    return low == sum_ ? low / count_
                       : static_cast<Nanos>(sum_ / count_);  // the short division is far cheaper
  }

 private:
  __int128_t sum_ = 0;
  std::int64_t count_ = 0;
};

}  // namespace laxity
