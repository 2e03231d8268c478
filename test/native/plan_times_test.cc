// Quantiles of what plans took.
#include "simulator/plan_times.h"

#include <doctest/doctest.h>

using namespace laxity;

TEST_SUITE("plan times") {
  TEST_CASE("a quantile is the ceil(share n)-th smallest; without plans there is none") {
    PlanTimes times;
    CHECK(times.quantileUs(0.5) == 0);
    for (const int us : {40, 10, 30, 20}) times.add(us * 1000, 1);
    CHECK(times.sum() == 100'000);
    CHECK(times.quantileUs(0) == 10);
    CHECK(times.quantileUs(0.25) == 10);
    CHECK(times.quantileUs(0.26) == 20);
    CHECK(times.quantileUs(0.5) == 20);
    CHECK(times.quantileUs(0.99) == 40);
    CHECK(times.quantileUs(1) == 40);
  }

  TEST_CASE("time that several plans took together is shared") {
    PlanTimes times;
    times.add(9000, 3);
    CHECK(times.quantileUs(0.5) == 3);
    CHECK(times.sum() == 9000);
  }
}
