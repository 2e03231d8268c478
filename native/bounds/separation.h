// The intervals in which a machine is given more work than it can do: for weights z of the workflows, the
// [t1, t2] with the largest  sum z * items with release >= t1 and deadline <= t2  -  speed * (t2 - t1).
//
// Items enter a tree over deadlines by falling release; each leaf holds the weighted work of one item less
// what the machine does since the deadline before, so the best t2 of every t1 is the largest prefix sum:
// O(N log N) for all t1.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bounds/work_terms.h"

namespace laxity::bounds {

struct Overload {
  double excess = 0;       ///< in 1/1024 ns
  std::uint32_t from = 0;  ///< item: t1 is its release
  std::uint32_t to = 0;    ///< item: t2 is its deadline
  Nanos t1 = 0;
  Nanos t2 = 0;
};

class Separation {
 public:
  /// The worst, at most `most` and distant from each other, the largest excess first.
  void find(const WorkTerms& terms, std::size_t machine, std::span<const double> z, std::size_t most,
            std::vector<Overload>* out);

 private:
  void set(std::size_t leaf, double work);
  std::size_t best() const;

  std::vector<double> sum_;
  std::vector<double> prefix_;  ///< largest prefix that ends at a leaf with an item
  std::size_t leaves_ = 0;
  std::vector<Overload> found_;
};

}  // namespace laxity::bounds
