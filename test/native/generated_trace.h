// The columns of a generated workload and their memory, for tests and the programs of bench.
#pragma once

#include <cstdint>
#include <vector>

#include "workload/call_writer.h"
#include "workload/trace.h"

namespace laxity {

struct GeneratedTrace {
  static constexpr std::uint32_t kGuard = 0xdeadbeef;
  static constexpr std::uint16_t kStageGuard = 0xffff;

  std::uint32_t workflows = 0;
  GeneratedSizes sizes;
  std::vector<std::uint32_t> firstCall, prompt, output, cached, parentOffset, parents;
  std::vector<std::uint16_t> stage;
  std::vector<double> gap;

  /// Where a generator is to write. `beyond`: cells more at every end, to see that nothing is written there.
  GeneratedColumns sized(std::uint32_t count, const GeneratedSizes& of, std::uint32_t beyond = 0) {
    workflows = count;
    sizes = of;
    firstCall.assign(workflows + 1 + beyond, kGuard);
    parentOffset.assign(sizes.calls + 1 + beyond, kGuard);
    parents.assign(sizes.edges + beyond, kGuard);
    for (auto* column : {&prompt, &output, &cached}) column->assign(sizes.calls + beyond, kGuard);
    stage.assign(sizes.calls + beyond, kStageGuard);
    gap.assign(sizes.calls + beyond, kGuard);
    return {firstCall.data(),    stage.data(),   prompt.data(), output.data(),
            parentOffset.data(), parents.data(), cached.data(), gap.data()};
  }
  /// Without what is cached, which not every run is to know.
  TraceColumns columns() const {
    TraceColumns c;
    c.workflows = workflows;
    c.calls = sizes.calls;
    c.edges = sizes.edges;
    c.firstCall = firstCall.data();
    c.stage = stage.data();
    c.promptTokens = prompt.data();
    c.outputTokens = output.data();
    c.toolGapMs = gap.data();
    c.parentOffset = parentOffset.data();
    c.parents = parents.data();
    return c;
  }
};

}  // namespace laxity
