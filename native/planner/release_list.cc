#include "planner/release_list.h"

#include <algorithm>

namespace laxity {

void ReleaseList::insert(std::vector<Entry>& list, std::int64_t key, std::uint32_t id, std::int64_t kv) {
  const auto at = std::upper_bound(list.begin(), list.end(), key,
                                   [](std::int64_t k, const Entry& e) { return k < e.key; });
  list.insert(at, {key, kv, id});
  stale_ = true;
}

bool ReleaseList::remove(std::vector<Entry>& list, std::int64_t key, std::uint32_t id) {
  auto at = std::lower_bound(list.begin(), list.end(), key,
                             [](const Entry& e, std::int64_t k) { return e.key < k; });
  while (at != list.end() && at->key == key && at->id != id) ++at;
  if (at == list.end() || at->key != key) return false;
  list.erase(at);
  stale_ = true;
  return true;
}

void ReleaseList::setClock(Nanos at, std::int64_t iteration, Nanos perIteration) {
  std::int64_t moved;
  const bool sameLine = perIteration == perIteration_ &&
                        !__builtin_mul_overflow(iteration - clockIteration_, perIteration, &moved) &&
                        moved == at - clockAt_;
  clockAt_ = at;
  clockIteration_ = iteration;
  perIteration_ = perIteration;
  if (!sameLine && !running_.empty()) stale_ = true;
}

Nanos ReleaseList::timeOf(std::int64_t iteration) const {
  std::int64_t time;
  if (__builtin_mul_overflow(iteration - clockIteration_, perIteration_, &time) ||
      __builtin_add_overflow(time, clockAt_, &time)) {
    return iteration < clockIteration_ ? -kMaxTime : kMaxTime;
  }
  return std::clamp(time, -kMaxTime, kMaxTime);
}

Timeline ReleaseList::timeline() const {
  if (stale_) {
    const std::size_t n = size();
    time_.resize(n);
    released_.resize(n);
    std::size_t i = 0;
    std::int64_t sum = 0;
    auto timed = timed_.begin();
    const auto put = [&](Nanos time, std::int64_t kv) {
      time_[i] = time;
      released_[i] = sum += kv;
      ++i;
    };
    for (const Entry& e : running_) {
      const Nanos time = timeOf(e.key);
      for (; timed != timed_.end() && timed->key <= time; ++timed) put(timed->key, timed->kv);
      put(time, e.kv);
    }
    for (; timed != timed_.end(); ++timed) put(timed->key, timed->kv);
    stale_ = false;
  }
  return {time_.data(), released_.data(), static_cast<std::uint32_t>(time_.size())};
}

void ReleaseWindow::set(const Timeline& timeline, Nanos t, Nanos perIteration) {
  timeline_ = timeline;
  overdueAt_ = t + perIteration;
  const Nanos* end = timeline.time + timeline.size;
  overdue_ = 0;
  if (timeline.size > 0 && timeline.time[0] <= t) {
    overdue_ = static_cast<std::uint32_t>(std::upper_bound(timeline.time, end, t) - timeline.time);
  }
  soon_ =
      static_cast<std::uint32_t>(std::lower_bound(timeline.time + overdue_, end, overdueAt_) - timeline.time);
  overdueKv_ = overdue_ > 0 ? timeline.released[overdue_ - 1] : 0;
}

Nanos ReleaseWindow::at(std::int64_t need) const {
  const std::int64_t* released = timeline_.released;
  // The first of [from, to) that has released `kv`, else `to`. Without branches: their outcome is random
  // here.
  const auto search = [&](std::uint32_t from, std::uint32_t to, std::int64_t kv) {
    const std::int64_t* base = released + from;
    std::size_t n = to - from;
    while (n > 1) {
      const std::size_t half = n / 2;
      base += static_cast<std::size_t>(base[half - 1] < kv) * half;
      n -= half;
    }
    return static_cast<std::uint32_t>(base - released) + (n == 1 && *base < kv ? 1u : 0u);
  };
  if (overdue_ > 0) {
    const std::uint32_t before = search(overdue_, soon_, need + overdueKv_);
    if (before < soon_) return timeline_.time[before];
    if (released[soon_ - 1] >= need) return overdueAt_;
    const std::uint32_t after = search(soon_, timeline_.size, need);
    return after < timeline_.size ? timeline_.time[after] : kNever;
  }
  const std::uint32_t i = search(0, timeline_.size, need);
  return i < timeline_.size ? timeline_.time[i] : kNever;
}

}  // namespace laxity
