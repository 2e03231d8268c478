// The agentic generators against the statistics they are drawn from (workloads.md 4 to 8).
#include "workload/agentic.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "generated_trace.h"
#include "workload/trace.h"

using namespace laxity;

namespace {

struct Generated : GeneratedTrace {
  explicit Generated(const AgenticSpec& spec) {
    GeneratedSizes size;
    REQUIRE(ok(agenticSizes(spec, &size)));
    agenticFill(spec, sized(spec.workflows, size));
  }
  double calls() const { return static_cast<double>(prompt.size()) / workflows; }
  template <class T>
  static double mean(const std::vector<T>& values) {
    double sum = 0;
    for (const T& value : values) sum += static_cast<double>(value);
    return sum / static_cast<double>(values.size());
  }
};

Generated generate(AgenticKind kind, ContextPreset context, std::uint32_t workflows = 20'000) {
  return Generated({kind, context, workflows, 8, 1});
}

}  // namespace

TEST_SUITE("agentic workloads") {
  TEST_CASE("calls per workflow and tokens per call are the published means") {
    const Generated chat = generate(AgenticKind::kShareGpt, ContextPreset::kNew);
    CHECK(chat.calls() == doctest::Approx(6.66).epsilon(0.03));
    CHECK(Generated::mean(chat.prompt) == doctest::Approx(256).epsilon(0.03));
    CHECK(Generated::mean(chat.output) == doctest::Approx(277).epsilon(0.03));
    const Generated tools = generate(AgenticKind::kBfcl, ContextPreset::kFull);
    CHECK(tools.calls() == doctest::Approx(9.95).epsilon(0.03));
    CHECK(Generated::mean(tools.prompt) == doctest::Approx(6275).epsilon(0.03));
    const Generated trees = generate(AgenticKind::kLats, ContextPreset::kNew);
    CHECK(trees.calls() == doctest::Approx(159.7).epsilon(0.03));
    CHECK(Generated::mean(trees.prompt) == doctest::Approx(467.2).epsilon(0.03));
    CHECK(Generated::mean(trees.output) == doctest::Approx(72.6).epsilon(0.03));
    // 120 of the recorded runs never exceed 131,072 tokens: 4,154 calls.
    const Generated agents = generate(AgenticKind::kAgents, ContextPreset::kFull, 2'000);
    CHECK(agents.calls() == doctest::Approx(34.6).epsilon(0.15));
    CHECK(Generated::mean(agents.cached) / Generated::mean(agents.prompt) ==
          doctest::Approx(0.963).epsilon(0.02));
  }

  TEST_CASE("every kind is a valid trace, the same for a prefix, with new tokens in every call") {
    for (int kind = 0; kind <= 5; ++kind) {
      for (const ContextPreset context : {ContextPreset::kNew, ContextPreset::kFull}) {
        CAPTURE(kind);
        const Generated g = generate(static_cast<AgenticKind>(kind), context, 200);
        TraceColumns c = g.columns();
        c.cachedTokens = g.cached.data();
        Trace trace;
        CHECK(ok(trace.bind(c)));
        const Generated shorter = generate(static_cast<AgenticKind>(kind), context, 100);
        CHECK(std::equal(shorter.prompt.begin(), shorter.prompt.end(), g.prompt.begin()));
        CHECK(std::equal(shorter.parents.begin(), shorter.parents.end(), g.parents.begin()));
        if (context == ContextPreset::kNew) CHECK(Generated::mean(g.cached) == 0);
      }
    }
  }

  TEST_CASE("what is out of range is refused") {
    GeneratedSizes size;
    CHECK(agenticSizes({AgenticKind::kMixed, ContextPreset::kNew, 0, 8, 1}, &size) == Status::kBadValue);
    CHECK(agenticSizes({AgenticKind::kChains, ContextPreset::kNew, 1, 0, 1}, &size) == Status::kBadValue);
    CHECK(agenticSizes({static_cast<AgenticKind>(9), ContextPreset::kNew, 1, 8, 1}, &size) ==
          Status::kBadValue);
  }
}
